/* An endpoint with a queue for both directions and a vector of addresses. */
#ifndef SIDE_H
#define SIDE_H

#include "check.h"

struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t other;
};

static void open_side(struct side *side, enum fi_wait_obj wait)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};
    struct fi_av_attr av = {.type = FI_AV_MAP};
    GIVES(0, fi_endpoint(domain, info, &side->ep, NULL));
    GIVES(0, fi_cq_open(domain, &cq, &side->cq, side));
    GIVES(0, fi_av_open(domain, &av, &side->av, NULL));
    GIVES(0, fi_ep_bind(side->ep, &side->av->fid, 0));
    GIVES(0, fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    GIVES(0, fi_enable(side->ep));
}

/* `from` knows the other by its address from now on. */
static void introduce(struct side *from, struct side *to)
{
    unsigned char name[16];
    size_t len = sizeof name;
    GIVES(0, fi_getname(&to->ep->fid, name, &len));
    GIVES(1, fi_av_insert(from->av, name, 1, &from->other, 0, NULL));
}

static void close_side(struct side *side)
{
    GIVES(0, fi_close(&side->ep->fid));
    GIVES(0, fi_close(&side->cq->fid));
    GIVES(0, fi_close(&side->av->fid));
}

#endif
