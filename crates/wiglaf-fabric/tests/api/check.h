/* What the programs that call libfabric share: a check, and a domain with endpoints in it. */
#ifndef CHECK_H
#define CHECK_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds)                                                              \
    do {                                                                          \
        if (!(holds)) {                                                           \
            fprintf(stderr, "%s:%d: not (%s)\n", __FILE__, __LINE__, #holds);     \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

/* A call's answer, which is printed when it is not the one wanted. */
#define GIVES(wanted, call)                                                       \
    do {                                                                          \
        long answer = (long)(call);                                               \
        if (answer != (long)(wanted)) {                                           \
            fprintf(stderr, "%s:%d: %s gives %ld, not %s\n", __FILE__, __LINE__, #call, answer, \
                    #wanted);                                                     \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;

static void open_domain_with(uint64_t caps, enum fi_progress progress)
{
    struct fi_info *hints = fi_allocinfo();
    hints->caps = caps;
    hints->domain_attr->data_progress = progress;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("wiglaf");
    GIVES(0, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
    fi_freeinfo(hints);
    GIVES(0, fi_fabric(info->fabric_attr, &fabric, NULL));
    GIVES(0, fi_domain(fabric, info, &domain, NULL));
}

static void open_domain(uint64_t caps)
{
    open_domain_with(caps, FI_PROGRESS_UNSPEC);
}

static void close_domain(void)
{
    GIVES(0, fi_close(&domain->fid));
    GIVES(0, fi_close(&fabric->fid));
    fi_freeinfo(info);
}

#endif
