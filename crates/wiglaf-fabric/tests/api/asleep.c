/* Messages to who is asleep: a queue's descriptor in a poll of the application's own, a poll set, and a
 * peer that moves its data by itself. */
#include "side.h"

#include <poll.h>
#include <time.h>

/* A hang becomes a failure after so long. */
static const int patience_s = 60;
static struct side a, b;
static char out[200000], in[200000];

static void open_pair(enum fi_wait_obj wait)
{
    open_side(&a, wait);
    open_side(&b, wait);
    introduce(&a, &b);
    introduce(&b, &a);
}

static void close_pair(void)
{
    for (int i = 0; i < 1000; i++) {
        fi_cq_read(a.cq, NULL, 0);
        fi_cq_read(b.cq, NULL, 0);
    }
    close_side(&a);
    close_side(&b);
}

/* B sleeps on its queue's descriptor, and nothing else, until there is something to read. */
static void sleep_until_read(struct pollfd *polled)
{
    struct fid *fid = &b.cq->fid;
    struct fi_cq_tagged_entry entry;
    ssize_t n;
    while ((n = fi_cq_read(b.cq, &entry, 1)) == -FI_EAGAIN) {
        if (fi_trywait(fabric, &fid, 1) == 0) {
            while (poll(polled, 1, 1) == 0) fi_cq_read(a.cq, NULL, 0);
        }
    }
    GIVES(1, n);
    CHECK(entry.op_context == in);
}

static void descriptors(void)
{
    for (size_t len = 0; len <= sizeof out; len = len * 9 + 11) {
        struct pollfd polled = {.events = POLLIN};
        struct fid *fid;
        open_pair(FI_WAIT_FD);
        fid = &b.cq->fid;
        GIVES(0, fi_control(fid, FI_GETWAIT, &polled.fd));
        memset(in, 0, sizeof in);
        GIVES(0, fi_trecv(b.ep, in, len, NULL, FI_ADDR_UNSPEC, 1, 0, in));
        while (fi_trywait(fabric, &fid, 1) != 0) continue;
        GIVES(0, fi_tsend(a.ep, out, len, NULL, a.other, 1, out));
        GIVES(1, poll(&polled, 1, patience_s * 1000));
        sleep_until_read(&polled);
        CHECK(memcmp(in, out, len) == 0);
        close_pair();
    }
}

static void poll_set(void)
{
    struct fi_poll_attr attr = {0};
    struct fi_cq_tagged_entry entry;
    struct fid_poll *set;
    void *context = NULL;
    open_pair(FI_WAIT_NONE);
    GIVES(0, fi_poll_open(domain, &attr, &set));
    GIVES(0, fi_poll_add(set, &a.cq->fid, 0));
    GIVES(0, fi_poll_add(set, &b.cq->fid, 0));
    GIVES(0, fi_trecv(b.ep, in, 10, NULL, FI_ADDR_UNSPEC, 1, 0, in));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(0, fi_tinject(a.ep, out, 10, a.other, 1));
    while (fi_poll(set, &context, 1) == 0) continue;
    CHECK(context == &b);
    GIVES(1, fi_cq_read(b.cq, &entry, 1));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(0, fi_close(&set->fid));
    close_pair();
}

/* Nobody calls the receiver after it has posted its receive. */
static void automatic(void)
{
    struct fi_msg_tagged message = {.tag = 1};
    struct iovec iov = {.iov_base = out, .iov_len = sizeof out};
    struct fi_cq_tagged_entry entry;
    time_t began = time(NULL);
    ssize_t n;
    open_pair(FI_WAIT_NONE);
    GIVES(0, fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, in));
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.addr = a.other;
    GIVES(0, fi_tsendmsg(a.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    do {
        n = fi_cq_read(a.cq, &entry, 1);
        CHECK(time(NULL) - began < patience_s);
    } while (n == -FI_EAGAIN);
    GIVES(1, n);
    GIVES(1, fi_cq_read(b.cq, &entry, 1));
    CHECK(memcmp(in, out, sizeof in) == 0);
    close_pair();
}

int main(void)
{
    for (size_t i = 0; i < sizeof out; i++) out[i] = (char)(i * 7 + i / 250);
    open_domain(FI_MSG | FI_TAGGED);
    descriptors();
    poll_set();
    close_domain();
    open_domain_with(FI_MSG | FI_TAGGED, FI_PROGRESS_AUTO);
    automatic();
    close_domain();
    puts("passed");
    return 0;
}
