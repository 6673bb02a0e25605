/* Every way through the library as libfabric itself: what it answers, and what it hands over with any
 * kind and number of arguments, to structures of today and of libfabric 1.0. */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds)                                                   \
    do {                                                               \
        if (!(holds)) {                                                \
            fprintf(stderr, "line %d: not (%s)\n", __LINE__, #holds); \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* The first version, as programs of 2015 have it. */
extern int getinfo_of_old(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                          struct fi_info **);
extern void freeinfo_of_old(struct fi_info *);
__asm__(".symver getinfo_of_old, fi_getinfo@FABRIC_1.0");
__asm__(".symver freeinfo_of_old, fi_freeinfo@FABRIC_1.0");

static int is_loaded(const char *name)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), maps)) found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

static void answers_by_itself(void)
{
    struct fi_info *hints = fi_allocinfo(), *info, *copy;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    CHECK(hints && hints->domain_attr && hints->fabric_attr && !hints->fabric_attr->prov_name);
    hints->caps = FI_TAGGED;
    CHECK(fi_getinfo(FI_VERSION(99, 0), NULL, NULL, 0, hints, &info) == -FI_ENOSYS);
    CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info) == -FI_ENOSYS);
    for (unsigned minor = 18; minor <= 19; minor++) {
        CHECK(fi_getinfo(FI_VERSION(1, minor), NULL, NULL, 0, hints, &info) == 0);
        CHECK(info->fabric_attr->api_version == FI_VERSION(1, minor));
        fi_freeinfo(info);
    }
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    CHECK(!strcmp(info->fabric_attr->prov_name, "wiglaf") && !info->next);
    CHECK(info->fabric_attr->api_version == FI_VERSION(1, 17));
    copy = fi_dupinfo(info);
    fi_freeinfo(info);
    CHECK(!strcmp(copy->fabric_attr->prov_name, "wiglaf") && copy->caps & FI_TAGGED);
    CHECK(copy->src_addr && copy->src_addrlen);
    CHECK(fi_fabric(copy->fabric_attr, &fabric, NULL) == 0);
    CHECK(fabric->api_version == FI_VERSION(1, 17));
    CHECK(fi_domain(fabric, copy, &domain, NULL) == 0);
    CHECK(fi_close(&domain->fid) == 0 && fi_close(&fabric->fid) == 0);
    free(copy->fabric_attr->name);
    copy->fabric_attr->name = NULL;
    CHECK(fi_fabric(copy->fabric_attr, &fabric, NULL) == -FI_EINVAL);
    fi_freeinfo(copy);
    hints->ep_attr->type = FI_EP_MSG;
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == -FI_ENODATA);
    fi_freeinfo(hints);
    CHECK(fi_version() == FI_VERSION(1, 17));
    CHECK(!strcmp(fi_strerror(-ENOENT), "No such file or directory"));
    CHECK(strlen(fi_strerror(FI_ETRUNC)) && strlen(fi_strerror(99999)));
}

static void hands_over(void)
{
    struct fi_info *hints = fi_allocinfo(), *info, *copy;
    struct fi_provider provider = {.name = "tester"};
    struct fid_fabric *fabric;
    uint64_t caps = FI_TAGGED;
    struct fid *resource;
    char text[100];
    hints->fabric_attr->prov_name = strdup("tcp");
    CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    CHECK(strstr(info->fabric_attr->prov_name, "tcp"));
    copy = fi_dupinfo(info);
    fi_freeinfo(info);
    CHECK((copy->nic != NULL) == (copy->nic && copy->nic->device_attr));
    CHECK(fi_fabric(copy->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_close(&fabric->fid) == 0);
    fi_freeinfo(copy);
    fi_freeinfo(hints);
    CHECK(!strcmp(fi_tostr(&caps, FI_TYPE_CAPS), "FI_TAGGED"));
    CHECK(!strcmp(fi_tostr_r(text, sizeof(text), &caps, FI_TYPE_CAPS), "FI_TAGGED"));
    CHECK(getinfo_of_old(FI_VERSION(1, 0), NULL, NULL, 0, NULL, &info) == 0);
    freeinfo_of_old(info);
    CHECK(fi_open(FI_VERSION(1, 17), "no such", NULL, 0, 0, &resource, NULL) == -FI_ENOSYS);
    /* In registers of both kinds and on the stack. */
    fi_log(&provider, FI_LOG_WARN, FI_LOG_CORE, __func__, __LINE__,
           "%s %d %.2f %d %.2f %d %.2f %s\n", "any", 1, 2.25, 3, 4.5, 5, 6.75, "number");
}

int main(void)
{
    int is_front = getenv("WIGLAF_LIBFABRIC") != NULL;
    answers_by_itself();
    CHECK(!is_front || !is_loaded("/libfabric.so.1"));
    hands_over();
    CHECK(is_loaded("/libfabric.so.1"));
    puts("passed");
    return 0;
}
