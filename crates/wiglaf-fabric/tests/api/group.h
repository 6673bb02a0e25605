/* Members of collective groups: endpoints, each with a queue, an event queue and a vector of all. */
#ifndef GROUP_H
#define GROUP_H

#include "check.h"

#include <rdma/fi_collective.h>

#define NAME_LEN 16
#define MEMBERS_MAX 9

struct member {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_eq *eq;
    struct fid_av_set *set;
    struct fid_mc *mc;
    char name[NAME_LEN];
};

/* An operation, which is also its context. */
struct op {
    int ended;
    int err;
    uint64_t flags;
};

/* With a queue of its own, or one that it shares: who reads that moves the data of all, and never
 * waits for one of them. */
static void open_member(struct member *m, struct fid_cq *shared)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_eq_attr eq_attr = {0};
    size_t len = NAME_LEN;
    GIVES(0, fi_endpoint(domain, info, &m->ep, NULL));
    GIVES(0, fi_av_open(domain, &av_attr, &m->av, NULL));
    m->cq = shared;
    if (!shared)
        GIVES(0, fi_cq_open(domain, &cq_attr, &m->cq, NULL));
    GIVES(0, fi_eq_open(fabric, &eq_attr, &m->eq, NULL));
    GIVES(0, fi_ep_bind(m->ep, &m->av->fid, 0));
    GIVES(0, fi_ep_bind(m->ep, &m->eq->fid, 0));
    GIVES(0, fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
    GIVES(0, fi_enable(m->ep));
    GIVES(0, fi_getname(&m->ep->fid, m->name, &len));
}

static void close_member(struct member *m)
{
    GIVES(0, fi_close(&m->ep->fid));
    GIVES(0, fi_close(&m->eq->fid));
    GIVES(0, fi_close(&m->av->fid));
}

/* A set of `count` members of the vector, and a group of them that is being joined. */
static void begin_join(struct member *m, fi_addr_t first, size_t count, fi_addr_t through)
{
    struct fi_av_set_attr attr = {
        .count = count, .start_addr = first, .end_addr = first + count - 1, .stride = 1};
    GIVES(0, fi_av_set(m->av, &attr, &m->set, NULL));
    if (through == 0)
        GIVES(0, fi_av_set_addr(m->set, &through));
    GIVES(0, fi_join_collective(m->ep, through, m->set, 0, &m->mc, m));
}

/* Takes what has completed, well or not. */
static void progress(struct member *m)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count = fi_cq_read(m->cq, &entry, 1);
    if (count == 1) {
        struct op *op = entry.op_context;
        CHECK(op && !op->ended);
        op->ended = 1;
        op->flags = entry.flags;
    } else if (count == -FI_EAVAIL) {
        GIVES(1, fi_cq_readerr(m->cq, &error, 0));
        struct op *op = error.op_context;
        CHECK(op && !op->ended && error.err);
        op->ended = 1;
        op->err = error.err;
    } else {
        CHECK(count == -FI_EAGAIN);
    }
}

#endif
