/* One-sided operations between two endpoints of one process: every call of both tables, registered
 * memory in both modes, counters, remote data, and what is refused. */
#include "check.h"
#include <rdma/fi_atomic.h>

#define LEN 200000

struct side {
    struct fid_ep *ep;
    struct fid_cq *tx, *rx;
    struct fid_cntr *reads, *writes, *remote_reads, *remote_writes;
    struct fid_av *av;
    fi_addr_t other;
};

static struct side a, b;
static unsigned char memory[LEN], out[LEN], in[LEN];
static struct fid_mr *mr;
static uint64_t key, base;
static uint64_t reads, writes;

static struct fid_cntr *counter(struct side *side, uint64_t what)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    GIVES(0, fi_cntr_open(domain, &attr, &cntr, NULL));
    GIVES(0, fi_ep_bind(side->ep, &cntr->fid, what));
    return cntr;
}

/* To any other port, where the domain's memory is to be reached as before. */
static void move(struct fid_ep *ep)
{
    unsigned char before[16], after[16];
    size_t len = sizeof before;
    GIVES(0, fi_getname(&ep->fid, before, &len));
    memcpy(after, before, sizeof after);
    memset(after + 2, 0, 2);
    GIVES(0, fi_setname(&ep->fid, after, sizeof after));
    GIVES(0, fi_getname(&ep->fid, after, &len));
    CHECK(memcmp(before, after, sizeof after) != 0);
}

static void open_side(struct side *side)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    GIVES(0, fi_endpoint(domain, info, &side->ep, NULL));
    GIVES(0, fi_cq_open(domain, &cq, &side->tx, NULL));
    GIVES(0, fi_cq_open(domain, &cq, &side->rx, NULL));
    GIVES(0, fi_av_open(domain, &av, &side->av, NULL));
    GIVES(0, fi_ep_bind(side->ep, &side->av->fid, 0));
    GIVES(0, fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT));
    GIVES(0, fi_ep_bind(side->ep, &side->rx->fid, FI_RECV));
    side->reads = counter(side, FI_READ);
    side->writes = counter(side, FI_WRITE);
    side->remote_reads = counter(side, FI_REMOTE_READ);
    side->remote_writes = counter(side, FI_REMOTE_WRITE);
    move(side->ep);
    GIVES(0, fi_enable(side->ep));
}

static void progress(void)
{
    fi_cq_read(a.tx, NULL, 0);
    fi_cq_read(b.rx, NULL, 0);
}

static struct fi_cq_tagged_entry done(struct fid_cq *cq, void *context, uint64_t flags)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n;
    do {
        progress();
        n = fi_cq_read(cq, &entry, 1);
    } while (n == -FI_EAGAIN);
    GIVES(1, n);
    CHECK(entry.op_context == context);
    CHECK(entry.flags == flags);
    return entry;
}

static void failed(void *context, int error)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry failure = {0};
    ssize_t n;
    do {
        progress();
        n = fi_cq_read(a.tx, &entry, 1);
    } while (n == -FI_EAGAIN);
    GIVES(-FI_EAVAIL, n);
    GIVES(1, fi_cq_readerr(a.tx, &failure, 0));
    CHECK(failure.op_context == context);
    GIVES(error, failure.err);
    CHECK(strlen(fi_cq_strerror(a.tx, failure.prov_errno, NULL, NULL, 0)) > 10);
}

/* A counter reaches this value, and no more. */
static void counted(struct fid_cntr *cntr, uint64_t value)
{
    while (fi_cntr_read(cntr) < value) progress();
    for (int i = 0; i < 50; i++) progress();
    GIVES(value, fi_cntr_read(cntr));
}

static void open_all(int mr_mode)
{
    unsigned char name[16];
    size_t len = sizeof name;
    open_domain(FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_MSG);
    CHECK((info->caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) ==
          (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE));
    GIVES(0, info->domain_attr->mr_mode);
    GIVES(0, fi_close(&domain->fid));
    info->domain_attr->mr_mode = mr_mode;
    GIVES(0, fi_domain(fabric, info, &domain, NULL));
    open_side(&a);
    open_side(&b);
    GIVES(0, fi_getname(&b.ep->fid, name, &len));
    GIVES(1, fi_av_insert(a.av, name, 1, &a.other, 0, NULL));
    GIVES(0, fi_getname(&a.ep->fid, name, &len));
    GIVES(1, fi_av_insert(b.av, name, 1, &b.other, 0, NULL));
    GIVES(0, fi_mr_reg(domain, memory, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 77, 0, &mr, NULL));
    key = fi_mr_key(mr);
    base = mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
    CHECK((key == 77) == !(mr_mode & FI_MR_PROV_KEY));
    reads = writes = 0;
}

static void close_all(void)
{
    struct side *sides[] = {&a, &b};
    for (int i = 0; i < 1000; i++) progress();
    GIVES(-FI_EBUSY, fi_close(&domain->fid));
    GIVES(0, fi_close(&mr->fid));
    for (int i = 0; i < 2; i++) {
        GIVES(0, fi_close(&sides[i]->ep->fid));
        GIVES(0, fi_close(&sides[i]->reads->fid));
        GIVES(0, fi_close(&sides[i]->writes->fid));
        GIVES(0, fi_close(&sides[i]->remote_reads->fid));
        GIVES(0, fi_close(&sides[i]->remote_writes->fid));
        GIVES(0, fi_close(&sides[i]->tx->fid));
        GIVES(0, fi_close(&sides[i]->rx->fid));
        GIVES(0, fi_close(&sides[i]->av->fid));
    }
    close_domain();
}

static void wrote(size_t len)
{
    writes++;
    CHECK(memcmp(memory + 3, out, len) == 0);
    CHECK(memory[2] == 0 && memory[3 + len] == 0);
    memset(memory, 0, LEN);
}

static void writing(void)
{
    static const size_t lens[] = {1, 500, 5000, 40000, LEN - 4};
    struct fi_cq_tagged_entry entry;
    memset(memory, 0, LEN);
    for (size_t n = 0; n < sizeof lens / sizeof *lens; n++) {
        size_t len = lens[n], half = len / 2;
        struct iovec iov[2] = {{out, half}, {out + half, len - half}};
        struct fi_rma_iov target = {base + 3, len, key};
        struct fi_msg_rma msg = {iov, NULL, 2, a.other, &target, 1, &msg, 4711};
        GIVES(0, fi_write(a.ep, out, len, NULL, a.other, base + 3, key, out));
        done(a.tx, out, FI_RMA | FI_WRITE);
        wrote(len);
        GIVES(0, fi_writev(a.ep, iov, NULL, 2, a.other, base + 3, key, iov));
        done(a.tx, iov, FI_RMA | FI_WRITE);
        wrote(len);
        GIVES(0, fi_writemsg(a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
        done(a.tx, &msg, FI_RMA | FI_WRITE);
        wrote(len);
        GIVES(0, fi_writemsg(a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_FENCE));
        done(a.tx, &msg, FI_RMA | FI_WRITE);
        entry = done(b.rx, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
        CHECK(entry.data == 4711 && entry.len == len);
        wrote(len);
        GIVES(0, fi_writedata(a.ep, out, len, NULL, 12, a.other, base + 3, key, out));
        done(a.tx, out, FI_RMA | FI_WRITE);
        CHECK(done(b.rx, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA).data == 12);
        wrote(len);
        if (len > 1000) {
            GIVES(-FI_EMSGSIZE, fi_inject_write(a.ep, out, len, a.other, base + 3, key));
            continue;
        }
        memcpy(in, out, len);
        GIVES(0, fi_inject_write(a.ep, in, len, a.other, base + 3, key));
        memset(in, 0xff, len);
        counted(a.writes, writes + 1);
        wrote(len);
        GIVES(0, fi_inject_writedata(a.ep, out, len, 13, a.other, base + 3, key));
        CHECK(done(b.rx, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA).data == 13);
        wrote(len);
    }
    counted(a.writes, writes);
    counted(b.remote_writes, writes);
}

static void was_read(size_t len)
{
    reads++;
    CHECK(memcmp(in, memory + 3, len) == 0);
    memset(in, 0, LEN);
}

static void reading(void)
{
    static const size_t lens[] = {1, 500, 5000, 40000, LEN - 4};
    memcpy(memory, out, LEN);
    for (size_t n = 0; n < sizeof lens / sizeof *lens; n++) {
        size_t len = lens[n], half = len / 2;
        struct iovec iov[2] = {{in, half}, {in + half, len - half}};
        struct fi_rma_iov target = {base + 3, len, key};
        struct fi_msg_rma msg = {iov, NULL, 2, a.other, &target, 1, &msg, 0};
        GIVES(0, fi_read(a.ep, in, len, NULL, a.other, base + 3, key, in));
        done(a.tx, in, FI_RMA | FI_READ);
        was_read(len);
        GIVES(0, fi_readv(a.ep, iov, NULL, 2, a.other, base + 3, key, iov));
        done(a.tx, iov, FI_RMA | FI_READ);
        was_read(len);
        GIVES(0, fi_readmsg(a.ep, &msg, FI_COMPLETION));
        done(a.tx, &msg, FI_RMA | FI_READ);
        was_read(len);
        target.len = len + 1;
        GIVES(-FI_EINVAL, fi_readmsg(a.ep, &msg, 0));
    }
    counted(a.reads, reads);
    counted(b.remote_reads, reads);
}

static void refusals(void)
{
    struct fid_mr *narrow, *taken;
    uint64_t errors = fi_cntr_readerr(a.writes);
    GIVES(0, fi_mr_reg(domain, memory, 8, FI_REMOTE_READ, 0, 78, 0, &narrow, NULL));
    if (key == 77)
        GIVES(-FI_ENOKEY, fi_mr_reg(domain, memory, 8, FI_REMOTE_READ, 0, 77, 0, &taken, NULL));
    GIVES(-FI_EINVAL, fi_mr_reg(domain, NULL, 8, FI_REMOTE_READ, 0, 79, 0, &taken, NULL));
    memset(memory, 0, LEN);
    static const size_t lens[] = {8, 50000};
    for (int n = 0; n < 2; n++) {
        GIVES(0, fi_write(a.ep, out, lens[n], NULL, a.other, base, key + 1000, out));
        failed(out, FI_EKEYREJECTED);
        GIVES(0, fi_write(a.ep, out, 8, NULL, a.other, base, fi_mr_key(narrow), out));
        failed(out, FI_EACCES);
        GIVES(0, fi_write(a.ep, out, lens[n], NULL, a.other, base + LEN - 7, key, out));
        failed(out, FI_EINVAL);
        GIVES(0, fi_write(a.ep, out, lens[n], NULL, a.other, UINT64_MAX - 2, key, out));
        failed(out, FI_EINVAL);
        GIVES(0, fi_read(a.ep, in, lens[n] + 1, NULL, a.other, base, fi_mr_key(narrow), in));
        failed(in, FI_EINVAL);
    }
    CHECK(fi_cntr_readerr(a.writes) == errors + 8);
    GIVES(0, fi_close(&narrow->fid));
    GIVES(0, fi_read(a.ep, in, 8, NULL, a.other, base, key + 1, in));
    failed(in, FI_EKEYREJECTED);
    for (int i = 0; i < LEN; i++) CHECK(memory[i] == 0);
    GIVES(-FI_EINVAL, fi_write(a.ep, NULL, 8, NULL, a.other, base, key, out));
    GIVES(-FI_EINVAL, fi_write(a.ep, out, 8, NULL, 999, base, key, out));
    GIVES(-FI_EINVAL, fi_readmsg(a.ep, NULL, 0));
    GIVES(-FI_EINVAL, fi_atomicmsg(a.ep, NULL, 0));
}

static void atomics(void)
{
    uint64_t *there = (uint64_t *)(void *)memory;
    uint64_t operand[2] = {5, 6}, compare[2] = {15, 0}, old[2] = {0, 0};
    uint64_t at = base, before = fi_cntr_read(a.writes), fetched = fi_cntr_read(a.reads);
    struct fi_ioc ops[2] = {{operand, 1}, {operand + 1, 1}}, results[2] = {{old, 1}, {old + 1, 1}};
    struct fi_ioc comps[1] = {{compare, 2}};
    struct fi_rma_ioc target = {at, 2, key};
    struct fi_msg_atomic msg = {ops, NULL, 2, a.other, &target, 1, FI_UINT64, FI_SUM, &msg, 0};
    size_t count = 0;
    struct fi_atomic_attr attr;
    memset(memory, 0, LEN);

    GIVES(0, fi_atomic(a.ep, operand, 2, NULL, a.other, at, key, FI_UINT64, FI_SUM, operand));
    done(a.tx, operand, FI_ATOMIC | FI_WRITE);
    GIVES(0, fi_atomicv(a.ep, ops, NULL, 2, a.other, at, key, FI_UINT64, FI_SUM, ops));
    done(a.tx, ops, FI_ATOMIC | FI_WRITE);
    GIVES(0, fi_atomicmsg(a.ep, &msg, FI_COMPLETION));
    done(a.tx, &msg, FI_ATOMIC | FI_WRITE);
    CHECK(there[0] == 15 && there[1] == 18);
    GIVES(0, fi_inject_atomic(a.ep, operand, 1, a.other, at + 8, key, FI_UINT64, FI_ATOMIC_WRITE));
    counted(a.writes, before + 4);
    CHECK(there[0] == 15 && there[1] == 5);

    GIVES(0, fi_fetch_atomic(a.ep, operand, 2, NULL, old, NULL, a.other, at, key, FI_UINT64, FI_MAX, old));
    done(a.tx, old, FI_ATOMIC | FI_READ);
    CHECK(old[0] == 15 && old[1] == 5 && there[0] == 15 && there[1] == 6);
    GIVES(0, fi_fetch_atomicv(a.ep, ops, NULL, 2, results, NULL, 2, a.other, at, key, FI_UINT64, FI_BXOR, ops));
    done(a.tx, ops, FI_ATOMIC | FI_READ);
    CHECK(old[0] == 15 && old[1] == 6 && there[0] == 10 && there[1] == 0);
    msg.op = FI_ATOMIC_READ;
    msg.msg_iov = NULL;
    GIVES(0, fi_fetch_atomicmsg(a.ep, &msg, results, NULL, 2, FI_COMPLETION));
    done(a.tx, &msg, FI_ATOMIC | FI_READ);
    CHECK(old[0] == 10 && old[1] == 0);

    GIVES(0, fi_compare_atomic(a.ep, operand, 2, NULL, compare, NULL, old, NULL, a.other, at, key, FI_UINT64,
                               FI_CSWAP, compare));
    done(a.tx, compare, FI_ATOMIC | FI_READ);
    CHECK(old[0] == 10 && there[0] == 10 && old[1] == 0 && there[1] == 6);
    GIVES(0, fi_compare_atomicv(a.ep, ops, NULL, 2, comps, NULL, 1, results, NULL, 2, a.other, at, key,
                                FI_UINT64, FI_CSWAP_NE, comps));
    done(a.tx, comps, FI_ATOMIC | FI_READ);
    CHECK(there[0] == 5 && there[1] == 6);
    msg.op = FI_MSWAP;
    msg.msg_iov = ops;
    operand[0] = 0xff;
    GIVES(0, fi_compare_atomicmsg(a.ep, &msg, comps, NULL, 1, results, NULL, 2, FI_COMPLETION));
    done(a.tx, &msg, FI_ATOMIC | FI_READ);
    CHECK(there[0] == 15 && there[1] == 6);
    counted(a.reads, fetched + 6);

    GIVES(0, fi_atomicvalid(a.ep, FI_DOUBLE, FI_SUM, &count));
    CHECK(count > 100);
    GIVES(0, fi_fetch_atomicvalid(a.ep, FI_INT8, FI_ATOMIC_READ, &count));
    GIVES(0, fi_compare_atomicvalid(a.ep, FI_DOUBLE_COMPLEX, FI_CSWAP, &count));
    GIVES(-FI_EOPNOTSUPP, fi_atomicvalid(a.ep, FI_LONG_DOUBLE, FI_SUM, &count));
    GIVES(-FI_EOPNOTSUPP, fi_atomicvalid(a.ep, FI_FLOAT, FI_BAND, &count));
    GIVES(-FI_EOPNOTSUPP, fi_atomicvalid(a.ep, FI_INT32, FI_CSWAP, &count));
    GIVES(0, fi_query_atomic(domain, FI_INT32, FI_CSWAP, &attr, FI_COMPARE_ATOMIC));
    CHECK(attr.size == 4 && attr.count > 100);
    GIVES(-FI_EOPNOTSUPP, fi_query_atomic(domain, FI_INT32, FI_CSWAP, &attr, FI_FETCH_ATOMIC));
    GIVES(-FI_EOPNOTSUPP,
          fi_atomic(a.ep, operand, 1, NULL, a.other, at, key, FI_LONG_DOUBLE, FI_SUM, operand));
    GIVES(0, fi_atomic(a.ep, operand, 1, NULL, a.other, at, key + 500, FI_UINT64, FI_SUM, operand));
    failed(operand, FI_EKEYREJECTED);
    GIVES(0, fi_fetch_atomic(a.ep, operand, 2, NULL, old, NULL, a.other, at + LEN - 8, key, FI_UINT64, FI_SUM,
                             old));
    failed(old, FI_EINVAL);
}

/* A counter of one region, and regions of several pieces. */
static void regions(void)
{
    struct iovec pieces[2] = {{memory, 10}, {memory + 50, 10}};
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *here;
    struct fid_mr *split;
    GIVES(0, fi_cntr_open(domain, &attr, &here, NULL));
    GIVES(0, fi_mr_regv(domain, pieces, 2, FI_REMOTE_WRITE, 0, 99, 0, &split, NULL));
    GIVES(0, fi_mr_bind(split, &here->fid, FI_REMOTE_WRITE));
    memset(memory, 0, LEN);
    GIVES(0, fi_write(a.ep, out, 12, NULL, a.other, base + 4, fi_mr_key(split), out));
    done(a.tx, out, FI_RMA | FI_WRITE);
    CHECK(memcmp(memory + 4, out, 6) == 0 && memcmp(memory + 50, out + 6, 6) == 0);
    CHECK(memory[10] == 0 && memory[56] == 0);
    counted(here, 1);
    GIVES(0, fi_write(a.ep, out, 1, NULL, a.other, base, key, out));
    done(a.tx, out, FI_RMA | FI_WRITE);
    counted(here, 1);
    GIVES(-FI_EBUSY, fi_close(&here->fid));
    GIVES(0, fi_close(&split->fid));
    GIVES(0, fi_close(&here->fid));
}

int main(void)
{
    static const int modes[] = {0, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY};
    for (size_t i = 0; i < sizeof out; i++) out[i] = (unsigned char)(i * 7 + i / 250 + 1);
    for (int i = 0; i < 2; i++) {
        open_all(modes[i]);
        writing();
        reading();
        refusals();
        atomics();
        regions();
        close_all();
    }
    puts("passed");
    return 0;
}
