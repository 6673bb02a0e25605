/* Messages between two endpoints of one process: every call of both tables, completion formats and
 * flags, counters, peeks, claims, discards, multi-receive buffers, cancels and errors. */
#include "check.h"

struct side {
    struct fid_ep *ep;
    struct fid_cq *tx, *rx;
    struct fid_cntr *sent, *received;
    struct fid_av *av;
    fi_addr_t other;
};

static struct side a, b;

/* It cannot move to the other's address, and stays where it is. */
static void stay(struct fid_ep *ep, struct fid_ep *other)
{
    unsigned char own[16], taken[16], after[16];
    size_t len = sizeof own;
    GIVES(0, fi_getname(&ep->fid, own, &len));
    GIVES(0, fi_getname(&other->fid, taken, &len));
    GIVES(-FI_EADDRNOTAVAIL, fi_setname(&ep->fid, taken, sizeof taken));
    GIVES(0, fi_setname(&ep->fid, own, sizeof own));
    GIVES(0, fi_getname(&ep->fid, after, &len));
    CHECK(memcmp(own, after, sizeof own) == 0);
}

static void open_side(struct side *side, enum fi_cq_format format, uint64_t selective)
{
    struct fi_cq_attr cq = {.format = format};
    struct fi_av_attr av = {.type = FI_AV_MAP};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    GIVES(0, fi_endpoint(domain, info, &side->ep, NULL));
    GIVES(0, fi_cq_open(domain, &cq, &side->tx, NULL));
    GIVES(0, fi_cq_open(domain, &cq, &side->rx, NULL));
    GIVES(0, fi_av_open(domain, &av, &side->av, NULL));
    GIVES(0, fi_ep_bind(side->ep, &side->av->fid, 0));
    GIVES(0, fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT | selective));
    GIVES(0, fi_ep_bind(side->ep, &side->rx->fid, FI_RECV | selective));
    side->sent = side->received = NULL;
    if (selective) {
        GIVES(0, fi_cntr_open(domain, &cntr, &side->sent, NULL));
        GIVES(0, fi_cntr_open(domain, &cntr, &side->received, NULL));
        GIVES(0, fi_ep_bind(side->ep, &side->sent->fid, FI_SEND));
        GIVES(0, fi_ep_bind(side->ep, &side->received->fid, FI_RECV));
    }
    if (side == &b) stay(b.ep, a.ep);
    GIVES(0, fi_enable(side->ep));
}

static void open_pair(enum fi_cq_format format, uint64_t selective)
{
    unsigned char name[16];
    size_t len = sizeof name;
    open_side(&a, format, selective);
    open_side(&b, format, selective);
    GIVES(0, fi_getname(&b.ep->fid, name, &len));
    GIVES(1, fi_av_insert(a.av, name, 1, &a.other, 0, NULL));
    GIVES(0, fi_getname(&a.ep->fid, name, &len));
    /* The index differs from the other side's, so that mixing them up shows. */
    GIVES(1, fi_av_insertsvc(b.av, "127.0.0.1", "1", &b.other, 0, NULL));
    GIVES(1, fi_av_insert(b.av, name, 1, &b.other, 0, NULL));
    CHECK(a.other == 0 && b.other == 1);
}

static void progress(void)
{
    fi_cq_read(a.tx, NULL, 0);
    fi_cq_read(a.rx, NULL, 0);
    fi_cq_read(b.tx, NULL, 0);
    fi_cq_read(b.rx, NULL, 0);
}

static void close_pair(void)
{
    struct side *sides[] = {&a, &b};
    /* Closing waits for acknowledgements, which the other side sends only when it is called. */
    for (int i = 0; i < 1000; i++) progress();
    for (int i = 0; i < 2; i++) {
        GIVES(0, fi_close(&sides[i]->ep->fid));
        if (sides[i]->sent) {
            GIVES(0, fi_close(&sides[i]->sent->fid));
            GIVES(0, fi_close(&sides[i]->received->fid));
        }
        GIVES(0, fi_close(&sides[i]->tx->fid));
        GIVES(0, fi_close(&sides[i]->rx->fid));
        GIVES(0, fi_close(&sides[i]->av->fid));
    }
}

/* The next completion, of the context wanted. */
static struct fi_cq_tagged_entry done(struct fid_cq *cq, void *context)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = 12345;
    ssize_t n;
    do {
        progress();
        n = fi_cq_readfrom(cq, &entry, 1, &source);
    } while (n == -FI_EAGAIN);
    GIVES(1, n);
    CHECK(entry.op_context == context);
    if (cq == b.rx) CHECK(source == b.other);
    return entry;
}

/* The next completion, which must be this error. */
static struct fi_cq_err_entry failed(struct fid_cq *cq, void *context, int error)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry failure = {0};
    ssize_t n;
    do {
        progress();
        n = fi_cq_read(cq, &entry, 1);
    } while (n == -FI_EAGAIN);
    GIVES(-FI_EAVAIL, n);
    GIVES(-FI_EAVAIL, fi_cq_read(cq, &entry, 1));
    GIVES(1, fi_cq_readerr(cq, &failure, 0));
    CHECK(failure.op_context == context);
    GIVES(error, failure.err);
    GIVES(-FI_EAGAIN, fi_cq_readerr(cq, &failure, 0));
    return failure;
}

static void nothing(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < 100; i++) {
        progress();
        GIVES(-FI_EAGAIN, fi_cq_read(cq, &entry, 1));
    }
}

static char out[200000], in[200000];

static void expect(size_t len)
{
    CHECK(memcmp(in, out, len) == 0);
    memset(in, 0, sizeof in);
}

static void untagged_calls(void)
{
    struct iovec send_iov[2] = {{out, 10}, {out + 10, 20}}, recv_iov[2] = {{in, 25}, {in + 25, 5}};
    struct fi_msg send_msg = {.msg_iov = send_iov, .iov_count = 2, .addr = a.other, .context = &send_msg,
                              .data = 77};
    struct fi_msg recv_msg = {.msg_iov = recv_iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC,
                              .context = &recv_msg};
    struct fi_cq_tagged_entry entry;

    GIVES(0, fi_recv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
    GIVES(0, fi_send(a.ep, out, 100, NULL, a.other, out));
    entry = done(a.tx, out);
    CHECK(entry.flags == (FI_SEND | FI_MSG));
    entry = done(b.rx, in);
    CHECK(entry.flags == (FI_RECV | FI_MSG) && entry.len == 100);
    expect(100);

    GIVES(0, fi_recvv(b.ep, recv_iov, NULL, 2, b.other, in));
    GIVES(0, fi_sendv(a.ep, send_iov, NULL, 2, a.other, out));
    done(a.tx, out);
    entry = done(b.rx, in);
    CHECK(entry.len == 30);
    expect(30);

    GIVES(0, fi_recvmsg(b.ep, &recv_msg, FI_COMPLETION));
    GIVES(0, fi_sendmsg(a.ep, &send_msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
    done(a.tx, &send_msg);
    entry = done(b.rx, &recv_msg);
    CHECK(entry.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA) && entry.data == 77);
    expect(30);

    GIVES(0, fi_recv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
    GIVES(0, fi_senddata(a.ep, out, 50, NULL, 0xfedcba9876543210, a.other, out));
    done(a.tx, out);
    entry = done(b.rx, in);
    CHECK(entry.data == 0xfedcba9876543210 && entry.len == 50);
    expect(50);

    GIVES(0, fi_inject(a.ep, out, 40, a.other));
    GIVES(0, fi_injectdata(a.ep, out, 41, 5, a.other));
    GIVES(0, fi_recv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
    entry = done(b.rx, in);
    CHECK(entry.len == 40 && !(entry.flags & FI_REMOTE_CQ_DATA));
    expect(40);
    GIVES(0, fi_recv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
    entry = done(b.rx, in);
    CHECK(entry.len == 41 && entry.data == 5);
    nothing(a.tx);

    GIVES(0, fi_recv(b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, in));
    GIVES(0, fi_send(a.ep, NULL, 0, NULL, a.other, NULL));
    done(a.tx, NULL);
    CHECK(done(b.rx, in).len == 0);
}

static void tagged_calls(void)
{
    struct iovec send_iov[2] = {{out, 10}, {out + 10, 20}}, recv_iov[2] = {{in, 25}, {in + 25, 5}};
    struct fi_msg_tagged send_msg = {.msg_iov = send_iov, .iov_count = 2, .addr = a.other,
                                     .tag = 9, .context = &send_msg, .data = 78};
    struct fi_msg_tagged recv_msg = {.msg_iov = recv_iov, .iov_count = 2, .addr = b.other,
                                     .tag = 9, .context = &recv_msg};
    struct fi_cq_tagged_entry entry;

    /* Matched by tag, not by order; bits that are ignored come back as sent. */
    GIVES(0, fi_tsend(a.ep, out, 20, NULL, a.other, 0x10, &a));
    GIVES(0, fi_tsend(a.ep, out, 60000, NULL, a.other, 0x21, out));
    GIVES(0, fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 0x20, 0xf, in));
    entry = done(b.rx, in);
    CHECK(entry.flags == (FI_RECV | FI_TAGGED) && entry.len == 60000 && entry.tag == 0x21);
    expect(60000);
    GIVES(0, fi_trecv(b.ep, in, sizeof in, NULL, b.other, 0x10, 0, in));
    CHECK(done(b.rx, in).len == 20);
    CHECK(done(a.tx, &a).flags == (FI_SEND | FI_TAGGED));
    done(a.tx, out);
    expect(20);

    GIVES(0, fi_trecvv(b.ep, recv_iov, NULL, 2, b.other, 9, 0, in));
    GIVES(0, fi_tsendv(a.ep, send_iov, NULL, 2, a.other, 9, out));
    done(a.tx, out);
    CHECK(done(b.rx, in).len == 30);
    expect(30);

    GIVES(0, fi_trecvmsg(b.ep, &recv_msg, FI_COMPLETION));
    GIVES(0, fi_tsendmsg(a.ep, &send_msg, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE));
    done(a.tx, &send_msg);
    CHECK(done(b.rx, &recv_msg).data == 78);
    expect(30);

    GIVES(0, fi_tinject(a.ep, out, 40, a.other, 1));
    GIVES(0, fi_tinjectdata(a.ep, out, 41, 6, a.other, 1));
    GIVES(0, fi_tsenddata(a.ep, out, 42, NULL, 7, a.other, 1, out));
    done(a.tx, out);
    for (int i = 0; i < 3; i++) {
        GIVES(0, fi_trecv(b.ep, in, 100, NULL, b.other, 1, 0, in));
        entry = done(b.rx, in);
        CHECK(entry.len == (size_t)(40 + i) && entry.data == (uint64_t)(i ? 5 + i : 0));
        expect(40);
    }
    GIVES(-FI_EMSGSIZE, fi_tinject(a.ep, out, info->tx_attr->inject_size + 1, a.other, 1));
    /* Tagged and untagged messages do not meet. */
    GIVES(0, fi_inject(a.ep, out, 3, a.other));
    GIVES(0, fi_trecv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, 0, ~0ull, in));
    nothing(b.rx);
    GIVES(0, fi_cancel(&b.ep->fid, in));
    failed(b.rx, in, FI_ECANCELED);
    GIVES(0, fi_recv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, in));
    CHECK(done(b.rx, in).len == 3);
}

static void peeks(void)
{
    struct fi_context context, other;
    struct iovec iov = {in, sizeof in};
    struct fi_msg_tagged peek = {.addr = FI_ADDR_UNSPEC, .tag = 4, .context = &context};
    struct fi_msg_tagged take = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 4,
                                 .context = &context};
    struct fi_cq_tagged_entry entry;

    GIVES(0, fi_trecvmsg(b.ep, &peek, FI_PEEK | FI_COMPLETION));
    failed(b.rx, &context, FI_ENOMSG);
    /* Three of them: one is seen, one claimed, one discarded. */
    for (int i = 0; i < 3; i++) GIVES(0, fi_tinjectdata(a.ep, out + i, 30 + i, 5, a.other, 4));
    for (int i = 0; i < 100; i++) progress();
    GIVES(0, fi_trecvmsg(b.ep, &peek, FI_PEEK | FI_COMPLETION));
    entry = done(b.rx, &context);
    CHECK(entry.len == 30 && entry.tag == 4 && entry.data == 5);
    GIVES(0, fi_trecvmsg(b.ep, &peek, FI_PEEK | FI_CLAIM | FI_COMPLETION));
    CHECK(done(b.rx, &context).len == 30);
    peek.context = &other;
    GIVES(0, fi_trecvmsg(b.ep, &peek, FI_PEEK | FI_DISCARD | FI_COMPLETION));
    CHECK(done(b.rx, &other).len == 31);
    nothing(b.rx);
    GIVES(0, fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 4, 0, in));
    CHECK(done(b.rx, in).len == 32);
    CHECK(memcmp(in, out + 2, 32) == 0);
    GIVES(0, fi_trecvmsg(b.ep, &take, FI_CLAIM | FI_COMPLETION));
    CHECK(done(b.rx, &context).len == 30);
    expect(30);
    GIVES(-FI_ENOMSG, fi_trecvmsg(b.ep, &take, FI_CLAIM | FI_COMPLETION));
    /* Claimed, then discarded. */
    GIVES(0, fi_tinject(a.ep, out, 30, a.other, 4));
    for (int i = 0; i < 100; i++) progress();
    GIVES(0, fi_trecvmsg(b.ep, &take, FI_PEEK | FI_CLAIM | FI_COMPLETION));
    done(b.rx, &context);
    GIVES(0, fi_trecvmsg(b.ep, &take, FI_CLAIM | FI_DISCARD | FI_COMPLETION));
    done(b.rx, &context);
    GIVES(0, fi_trecvmsg(b.ep, &take, FI_PEEK | FI_COMPLETION));
    failed(b.rx, &context, FI_ENOMSG);
}

static void truncation(void)
{
    static const size_t lens[] = {50, 190000};
    for (int i = 0; i < 2; i++) {
        struct fi_cq_err_entry failure;
        GIVES(0, fi_trecv(b.ep, in, 20, NULL, FI_ADDR_UNSPEC, 8, 0, in));
        GIVES(0, fi_tsenddata(a.ep, out, lens[i], NULL, 3, a.other, 8, out));
        failure = failed(b.rx, in, FI_ETRUNC);
        CHECK(failure.len == 20 && failure.olen == lens[i] - 20);
        CHECK(failure.tag == 8 && failure.data == 3);
        CHECK(failure.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
        CHECK(in[20] == 0 && in[lens[i] - 1] == 0);
        done(a.tx, out);
        expect(20);
    }
}

static void multi_receive(void)
{
    size_t least = 100;
    struct iovec iov = {in, 1000};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &msg};
    GIVES(0, fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    GIVES(0, fi_recvmsg(b.ep, &msg, FI_MULTI_RECV | FI_COMPLETION));
    char *place = in;
    for (int i = 0; i < 4; i++) {
        GIVES(0, fi_inject(a.ep, out + i, 240, a.other));
        struct fi_cq_tagged_entry entry = done(b.rx, &msg);
        CHECK(entry.len == 240 && (char *)entry.buf >= place);
        CHECK(memcmp(entry.buf, out + i, 240) == 0);
        CHECK(!!(entry.flags & FI_MULTI_RECV) == (i == 3));
        place = (char *)entry.buf + 240;
    }
    GIVES(-FI_ENOENT, fi_cancel(&b.ep->fid, &msg));
    memset(in, 0, sizeof in);
}

/* A receive from somebody else leaves the message alone. */
static void directed(void)
{
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, 0, 1, 0, &in[1]));
    GIVES(0, fi_tinject(a.ep, out, 10, a.other, 1));
    nothing(b.rx);
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 1, 0, in));
    done(b.rx, in);
    GIVES(0, fi_cancel(&b.ep->fid, &in[1]));
    failed(b.rx, &in[1], FI_ECANCELED);
    expect(10);
}

static void waiting(void)
{
    struct fi_cq_tagged_entry entry;
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 1, 0, in));
    GIVES(-FI_EAGAIN, fi_cq_sread(b.rx, &entry, 1, NULL, 10));
    GIVES(0, fi_tinject(a.ep, out, 10, a.other, 1));
    GIVES(1, fi_cq_sread(b.rx, &entry, 1, NULL, 10000));
    expect(10);
    for (int i = 0; i < 100; i++) progress();
}

/* With selective completion and counters: silent operations are counted and not shown. */
static void selective(void)
{
    struct fi_context context;
    struct iovec iov = {out, 10};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.other, .tag = 1};
    uint64_t sent = fi_cntr_read(a.sent), received = fi_cntr_read(b.received);
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 1, 0, in));
    GIVES(0, fi_tsend(a.ep, out, 10, NULL, a.other, 1, out));
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 1, 0, in));
    GIVES(0, fi_tinject(a.ep, out, 10, a.other, 1));
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 1, 0, in));
    GIVES(0, fi_tsendmsg(a.ep, &msg, 0));
    while (fi_cntr_read(a.sent) < sent + 3) progress();
    GIVES(0, fi_cntr_wait(b.received, received + 3, 10000));
    nothing(a.tx);
    nothing(b.rx);
    GIVES(sent + 3, fi_cntr_read(a.sent));
    GIVES(received + 3, fi_cntr_read(b.received));
    /* A silent buffer for several messages is counted for each of them. */
    struct iovec multi_iov = {in, 1000};
    struct fi_msg multi = {.msg_iov = &multi_iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
                           .context = &multi};
    uint64_t before = fi_cntr_read(b.received);
    GIVES(0, fi_recvmsg(b.ep, &multi, FI_MULTI_RECV));
    for (int i = 0; i < 3; i++) GIVES(0, fi_inject(a.ep, out, 100, a.other));
    GIVES(0, fi_cntr_wait(b.received, before + 3, 10000));
    nothing(b.rx);
    GIVES(0, fi_cancel(&b.ep->fid, &multi));
    failed(b.rx, &multi, FI_ECANCELED);
    /* That one is used up is always told, with its last message. */
    multi_iov.iov_len = 300;
    GIVES(0, fi_recvmsg(b.ep, &multi, FI_MULTI_RECV));
    for (int i = 0; i < 3; i++) GIVES(0, fi_inject(a.ep, out, 100, a.other));
    GIVES(0, fi_cntr_wait(b.received, before + 6, 10000));
    struct fi_cq_tagged_entry released;
    GIVES(1, fi_cq_read(b.rx, &released, 1));
    CHECK(released.op_context == &multi && released.flags == (FI_RECV | FI_MSG | FI_MULTI_RECV));
    CHECK(released.buf == in + 200 && released.len == 100);
    nothing(b.rx);
    sent = fi_cntr_read(a.sent);
    received = before + 3;
    /* A peek is shown and not counted; the claimed receive is both. */
    GIVES(0, fi_tinject(a.ep, out, 10, a.other, 1));
    for (int i = 0; i < 100; i++) progress();
    struct iovec in_iov = {in, 10};
    struct fi_msg_tagged take = {.msg_iov = &in_iov, .iov_count = 1, .addr = b.other, .tag = 1,
                                 .context = &context};
    GIVES(0, fi_trecvmsg(b.ep, &take, FI_PEEK | FI_CLAIM | FI_COMPLETION));
    done(b.rx, &context);
    GIVES(received + 3, fi_cntr_read(b.received));
    GIVES(0, fi_trecvmsg(b.ep, &take, FI_CLAIM | FI_COMPLETION));
    done(b.rx, &context);
    GIVES(received + 4, fi_cntr_read(b.received));
    /* A silent receive can be cancelled by its context, which is an error and shown. */
    uint64_t errors = fi_cntr_readerr(b.received);
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 99, 0, in));
    GIVES(0, fi_cancel(&b.ep->fid, in));
    failed(b.rx, in, FI_ECANCELED);
    GIVES(errors + 1, fi_cntr_readerr(b.received));
    GIVES(0, fi_tsendmsg(a.ep, &msg, FI_COMPLETION));
    done(a.tx, NULL);
}

/* Whether a set says within reason that there are news. */
static int has_news(struct fid_poll *set)
{
    void *context;
    int n = 0;
    for (int i = 0; i < 100000 && n == 0; i++) {
        fi_cq_read(a.tx, NULL, 0);
        n = fi_poll(set, &context, 1);
    }
    return n;
}

/* A set tells of a counter whose value or errors have changed, once. */
static void watched_counters(void)
{
    struct fi_poll_attr attr = {0};
    struct fid_poll *set;
    void *context;
    GIVES(0, fi_poll_open(domain, &attr, &set));
    GIVES(0, fi_poll_add(set, &b.received->fid, 0));
    fi_cntr_readerr(b.received);
    GIVES(0, fi_cntr_set(b.received, 1));
    GIVES(1, fi_cntr_read(b.received));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(0, fi_cntr_set(b.received, 0));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 5, 0, in));
    GIVES(0, fi_tinject(a.ep, out, 10, a.other, 5));
    GIVES(1, has_news(set));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(0, fi_cntr_add(b.received, 5));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(6, fi_cntr_read(b.received));
    /* Errors alone, of which a call without room for them tells nothing. */
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 99, 0, in));
    GIVES(0, fi_cancel(&b.ep->fid, in));
    GIVES(0, fi_poll(set, NULL, 0));
    GIVES(1, fi_poll(set, &context, 1));
    GIVES(0, fi_poll(set, &context, 1));
    failed(b.rx, in, FI_ECANCELED);
    /* Who reads no more than the errors moves data, too. */
    uint64_t errors = fi_cntr_readerr(b.received);
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, b.other, 5, 0, in));
    GIVES(0, fi_tinject(a.ep, out, 20, a.other, 5));
    for (int i = 0; i < 100000 && fi_cntr_readerr(b.received) == errors; i++) fi_cq_read(a.tx, NULL, 0);
    GIVES(errors + 1, fi_cntr_readerr(b.received));
    GIVES(0, fi_poll(set, &context, 1));
    failed(b.rx, in, FI_ETRUNC);
    GIVES(0, fi_close(&set->fid));
}

/* Nobody listens at b's first entry: what waits for a completion fails, what does not is forgotten, and
 * later posts are refused. */
static void gone(void)
{
    struct fi_cq_err_entry failure;
    int refused = 0;
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, 0, 3, 0, in));
    GIVES(0, fi_tinject(b.ep, out, 10, 0, 3));
    /* That the buffer is free again does not make it delivered. */
    struct iovec iov = {out, 10};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = 0, .tag = 3, .context = &msg};
    GIVES(0, fi_tsendmsg(b.ep, &msg, FI_INJECT | FI_DELIVERY_COMPLETE | FI_COMPLETION));
    GIVES(0, fi_tsendmsg(b.ep, &msg, FI_INJECT | FI_TRANSMIT_COMPLETE | FI_COMPLETION));
    GIVES(0, fi_tsend(b.ep, out, sizeof out, NULL, 0, 3, out));
    failed(b.tx, &msg, FI_ECONNRESET);
    failed(b.tx, &msg, FI_ECONNRESET);
    failure = failed(b.tx, out, FI_ECONNRESET);
    CHECK(failure.flags == (FI_SEND | FI_TAGGED));
    failed(b.rx, in, FI_ECONNRESET);
    nothing(b.tx);
    while (!refused) {
        ssize_t answer = fi_tinject(b.ep, out, 10, 0, 3);
        CHECK(answer == 0 || answer == -FI_EAGAIN || answer == -FI_ECONNRESET);
        refused = answer == -FI_ECONNRESET;
        progress();
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof out; i++) out[i] = (char)(i * 7 + i / 250);
    open_domain(FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE);
    open_pair(FI_CQ_FORMAT_TAGGED, 0);
    untagged_calls();
    tagged_calls();
    peeks();
    truncation();
    multi_receive();
    directed();
    waiting();
    gone();
    close_pair();
    open_pair(FI_CQ_FORMAT_TAGGED, FI_SELECTIVE_COMPLETION);
    selective();
    watched_counters();
    close_pair();
    close_domain();
    puts("passed");
    return 0;
}
