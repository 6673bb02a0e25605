/* The life of objects: what opening, binding and closing in the wrong order or with bad arguments
 * answer, and the calls that move no data. */
#include "check.h"

#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static struct fid_cq *open_cq(enum fi_cq_format format)
{
    struct fi_cq_attr attr = {.format = format};
    struct fid_cq *cq;
    GIVES(0, fi_cq_open(domain, &attr, &cq, NULL));
    return cq;
}

static struct fid_av *open_av(void)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct fid_av *av;
    GIVES(0, fi_av_open(domain, &attr, &av, NULL));
    return av;
}

static void address_vectors(void)
{
    struct fi_av_attr attr = {.type = FI_AV_MAP, .name = "FI_NAMED_AV_0"};
    struct fid_av *av;
    fi_addr_t index[3];
    unsigned char sockaddrs[3][16] = {{2, 0, 0x12, 0x34, 10, 0, 0, 1, 9},
                                      {10, 0, 0x12, 0x34, 10, 0, 0, 2},
                                      {2, 0, 0, 9, 10, 0, 0, 3}};
    unsigned char back[16];
    char text[64], small[5];
    size_t len = sizeof back;
    int errors[3] = {-1, -1, -1};

    GIVES(-FI_ENOSYS, fi_av_open(domain, &attr, &av, NULL));
    GIVES(-FI_EINVAL, fi_av_open(domain, NULL, &av, NULL));
    av = open_av();
    GIVES(-FI_EBUSY, fi_close(&domain->fid));
    /* The second is no IPv4 address. */
    GIVES(2, fi_av_insert(av, sockaddrs, 3, index, FI_SYNC_ERR, errors));
    CHECK(index[0] == 0 && index[1] == FI_ADDR_NOTAVAIL && index[2] == 1);
    CHECK(errors[0] == 0 && errors[1] == FI_EINVAL && errors[2] == 0);
    GIVES(0, fi_av_lookup(av, 0, back, &len));
    CHECK(len == 16 && memcmp(back, sockaddrs[0], 16) == 0);
    GIVES(-FI_EINVAL, fi_av_lookup(av, 7, back, &len));
    GIVES(-FI_EINVAL, fi_av_insert(av, NULL, 1, index, 0, NULL));
    GIVES(1, fi_av_insertsvc(av, "127.0.0.1", "4711", index, 0, NULL));
    CHECK(index[0] == 2);
    GIVES(-FI_EINVAL, fi_av_insertsvc(av, "127.0.0.1", "no port", index, 0, NULL));
    len = sizeof text;
    CHECK(fi_av_straddr(av, sockaddrs[0], text, &len) == text);
    CHECK(strcmp(text, "fi_sockaddr_in://10.0.0.1:4660") == 0 && len == strlen(text) + 1);
    len = sizeof small;
    fi_av_straddr(av, sockaddrs[0], small, &len);
    CHECK(strcmp(small, "fi_s") == 0 && len == strlen(text) + 1);
    index[0] = 1;
    GIVES(0, fi_av_remove(av, index, 1, 0));
    GIVES(-FI_EINVAL, fi_av_remove(av, index, 1, 0));
    GIVES(0, fi_close(&av->fid));
}

static void queues(void)
{
    struct fi_cq_attr attr = {.format = 99};
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    struct fid_cq *cq;
    GIVES(-FI_EINVAL, fi_cq_open(domain, &attr, &cq, NULL));
    attr.format = FI_CQ_FORMAT_TAGGED;
    attr.wait_obj = FI_WAIT_MUTEX_COND;
    GIVES(-FI_ENOSYS, fi_cq_open(domain, &attr, &cq, NULL));
    cq = open_cq(FI_CQ_FORMAT_TAGGED);
    GIVES(-FI_EAGAIN, fi_cq_read(cq, &entry, 1));
    GIVES(-FI_EAGAIN, fi_cq_read(cq, NULL, 0));
    GIVES(-FI_EINVAL, fi_cq_read(cq, NULL, 1));
    GIVES(-FI_EAGAIN, fi_cq_readerr(cq, &error, 0));
    GIVES(-FI_EAGAIN, fi_cq_sread(cq, &entry, 1, NULL, 20));
    GIVES(0, fi_cq_signal(cq));
    GIVES(-FI_EAGAIN, fi_cq_sread(cq, &entry, 1, NULL, -1));
    CHECK(fi_cq_strerror(cq, FI_ETRUNC, NULL, NULL, 0) != NULL);
    GIVES(0, fi_close(&cq->fid));
}

/* Whether a descriptor is readable within that time. */
static int readable(int fd, int timeout_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

static void descriptors(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_eq_entry event = {0};
    struct fid_cq *cq = open_cq(FI_CQ_FORMAT_TAGGED);
    struct fid_eq *eq;
    struct fid *fid;
    uint32_t kind;
    int fd = -1;
    GIVES(-FI_ENODATA, fi_control(&cq->fid, FI_GETWAIT, &fd));
    GIVES(0, fi_close(&cq->fid));
    GIVES(0, fi_cq_open(domain, &attr, &cq, NULL));
    GIVES(-FI_EINVAL, fi_control(&cq->fid, FI_GETWAIT, NULL));
    GIVES(0, fi_control(&cq->fid, FI_GETWAIT, &fd));
    fid = &cq->fid;
    GIVES(0, fi_trywait(fabric, &fid, 1));
    GIVES(0, fi_cq_signal(cq));
    CHECK(readable(fd, 0));
    GIVES(-FI_EAGAIN, fi_trywait(fabric, &fid, 1));
    GIVES(0, fi_trywait(fabric, &fid, 1));
    GIVES(0, fi_close(&cq->fid));

    GIVES(0, fi_eq_open(fabric, &eq_attr, &eq, NULL));
    GIVES(-FI_ENOSYS, fi_domain_bind(domain, &eq->fid, FI_REG_MR));
    GIVES(0, fi_control(&eq->fid, FI_GETWAIT, &fd));
    fid = &eq->fid;
    GIVES(0, fi_trywait(fabric, &fid, 1));
    CHECK(!readable(fd, 0));
    GIVES(sizeof event, fi_eq_write(eq, FI_NOTIFY, &event, sizeof event, 0));
    CHECK(readable(fd, 0));
    GIVES(-FI_EAGAIN, fi_trywait(fabric, &fid, 1));
    GIVES(sizeof event, fi_eq_read(eq, &kind, &event, sizeof event, 0));
    CHECK(!readable(fd, 0));
    GIVES(0, fi_close(&eq->fid));
}

static void poll_sets(void)
{
    struct fi_poll_attr attr = {.flags = 1};
    struct fid_poll *set;
    struct fid_cq *cq = open_cq(FI_CQ_FORMAT_TAGGED);
    struct fid_av *av = open_av();
    void *context;
    GIVES(-FI_EINVAL, fi_poll_open(domain, &attr, &set));
    attr.flags = 0;
    GIVES(0, fi_poll_open(domain, &attr, &set));
    GIVES(-FI_EINVAL, fi_poll_add(set, &av->fid, 0));
    GIVES(0, fi_poll_add(set, &cq->fid, 0));
    GIVES(0, fi_poll(set, &context, 1));
    GIVES(0, fi_poll(set, NULL, 0));
    GIVES(-FI_EINVAL, fi_poll(set, NULL, 1));
    GIVES(-FI_EBUSY, fi_close(&cq->fid)); /* in the set */
    GIVES(0, fi_poll_del(set, &cq->fid, 0));
    GIVES(-FI_EINVAL, fi_poll_del(set, &cq->fid, 0));
    GIVES(0, fi_close(&set->fid));
    GIVES(0, fi_close(&cq->fid));
    GIVES(0, fi_close(&av->fid));
}

static void counters(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    GIVES(0, fi_cntr_open(domain, &attr, &cntr, NULL));
    GIVES(0, fi_cntr_set(cntr, 5));
    GIVES(0, fi_cntr_add(cntr, 2));
    GIVES(7, fi_cntr_read(cntr));
    GIVES(0, fi_cntr_adderr(cntr, 3));
    GIVES(3, fi_cntr_readerr(cntr));
    GIVES(0, fi_cntr_wait(cntr, 7, 1000));
    GIVES(-FI_ETIMEDOUT, fi_cntr_wait(cntr, 8, 10));
    GIVES(0, fi_close(&cntr->fid));
}

static void events(void)
{
    struct fi_eq_attr attr = {0};
    struct fi_eq_entry entry = {.data = 42}, got = {0};
    struct fid_eq *eq;
    uint32_t kind;
    GIVES(0, fi_eq_open(fabric, &attr, &eq, NULL));
    GIVES(-FI_EAGAIN, fi_eq_read(eq, &kind, &got, sizeof got, 0));
    GIVES(sizeof entry, fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0));
    GIVES(sizeof got, fi_eq_read(eq, &kind, &got, sizeof got, FI_PEEK));
    GIVES(sizeof got, fi_eq_sread(eq, &kind, &got, sizeof got, 1000, 0));
    CHECK(kind == FI_NOTIFY && got.data == 42);
    GIVES(-FI_EAGAIN, fi_eq_sread(eq, &kind, &got, sizeof got, 10, 0));
    GIVES(0, fi_close(&eq->fid));
}

/* Without FI_HMEM, which is not offered, nobody looks at the interface: with older headers the
 * structure ends before it. */
static void attributes(char *buf)
{
    const size_t len = offsetof(struct fi_mr_attr, auth_key_size), page = (size_t)sysconf(_SC_PAGESIZE);
    struct iovec iov = {buf, 100};
    struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ,
                              .requested_key = 7, .context = &iov, .iface = FI_HMEM_CUDA};
    struct fid_mr *mr;
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    GIVES(0, fi_mr_regattr(domain, &attr, 0, &mr));
    CHECK(fi_mr_key(mr) == 7 && mr->fid.context == &iov);
    GIVES(0, fi_close(&mr->fid));
    memcpy(pages + page - len, &attr, len);
    GIVES(0, fi_mr_regattr(domain, (struct fi_mr_attr *)(void *)(pages + page - len), 0, &mr));
    GIVES(0, fi_close(&mr->fid));
    GIVES(-FI_EINVAL, fi_mr_regattr(domain, NULL, 0, &mr));
    munmap(pages, 2 * page);
}

static void memory(void)
{
    char buf[100];
    struct fid_mr *mr, *second;
    GIVES(0, fi_mr_reg(domain, buf, 100, FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
    CHECK(fi_mr_key(mr) == 7);
    GIVES(-FI_ENOKEY, fi_mr_reg(domain, buf, 100, FI_REMOTE_WRITE, 0, 7, 0, &second, NULL));
    GIVES(0, fi_mr_reg(domain, buf, 100, FI_SEND, 0, 7, 0, &second, NULL));
    GIVES(-FI_EINVAL, fi_mr_reg(domain, NULL, 100, FI_SEND, 0, 8, 0, &second, NULL));
    GIVES(-FI_EBUSY, fi_close(&domain->fid));
    GIVES(0, fi_close(&second->fid));
    GIVES(0, fi_close(&mr->fid));
    GIVES(0, fi_mr_reg(domain, buf, 100, FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
    GIVES(0, fi_close(&mr->fid));
    attributes(buf);
}

static void endpoints(void)
{
    struct fid_ep *ep;
    struct fid_cq *cq = open_cq(FI_CQ_FORMAT_TAGGED);
    struct fid_av *av = open_av();
    unsigned char name[16];
    size_t len = 0, option, option_len = sizeof option;
    char byte = 0;

    GIVES(-FI_EINVAL, fi_endpoint(domain, NULL, &ep, NULL));
    GIVES(0, fi_endpoint(domain, info, &ep, NULL));
    /* The name in two passes, before the endpoint is enabled. */
    GIVES(-FI_ETOOSMALL, fi_getname(&ep->fid, NULL, &len));
    CHECK(len == 16);
    GIVES(0, fi_getname(&ep->fid, name, &len));
    CHECK(name[0] == 2 && (name[2] || name[3]) && name[4] == 127);
    GIVES(-FI_ENOAV, fi_enable(ep));
    GIVES(0, fi_ep_bind(ep, &av->fid, 0));
    GIVES(-FI_EINVAL, fi_ep_bind(ep, &av->fid, 0));
    GIVES(-FI_ENOCQ, fi_enable(ep));
    GIVES(-FI_EINVAL, fi_ep_bind(ep, &cq->fid, 0));
    GIVES(-FI_EINVAL, fi_ep_bind(ep, &domain->fid, 0));
    GIVES(0, fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    GIVES(-FI_EINVAL, fi_ep_bind(ep, &cq->fid, FI_RECV));
    GIVES(-FI_EOPBADSTATE, fi_send(ep, &byte, 1, NULL, 0, NULL));
    GIVES(-FI_EOPBADSTATE, fi_recv(ep, &byte, 1, NULL, 0, NULL));
    GIVES(0, fi_enable(ep));
    GIVES(-FI_EOPBADSTATE, fi_enable(ep));
    GIVES(-FI_EOPBADSTATE, fi_ep_bind(ep, &cq->fid, FI_RECV));
    GIVES(-FI_EOPBADSTATE, fi_setname(&ep->fid, name, sizeof name));

    option = 12345;
    GIVES(0, fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &option, sizeof option));
    option = 0;
    GIVES(0, fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &option, &option_len));
    CHECK(option == 12345);
    GIVES(-FI_ENOPROTOOPT, fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 77, &option, sizeof option));

    GIVES(-FI_EINVAL, fi_send(ep, &byte, 1, NULL, 0, NULL)); /* nobody is in the vector */
    GIVES(-FI_EINVAL, fi_tsend(ep, NULL, 1, NULL, 0, 0, NULL));
    GIVES(-FI_EINVAL, fi_recv(ep, NULL, 1, NULL, FI_ADDR_UNSPEC, NULL));
    GIVES(-FI_EINVAL, fi_sendmsg(ep, NULL, 0));
    GIVES(-FI_EINVAL, fi_trecvmsg(ep, NULL, 0));
    GIVES(-FI_ENOENT, fi_cancel(&ep->fid, &byte));
    GIVES(-FI_EOPNOTSUPP, fi_read(ep, &byte, 1, NULL, 0, 0, 0, NULL)); /* no FI_RMA was asked for */

    GIVES(-FI_EBUSY, fi_close(&cq->fid));
    GIVES(-FI_EBUSY, fi_close(&av->fid));
    GIVES(-FI_EBUSY, fi_close(&domain->fid));
    GIVES(-FI_EBUSY, fi_close(&fabric->fid));
    GIVES(0, fi_close(&ep->fid));
    GIVES(0, fi_close(&av->fid));
    GIVES(0, fi_close(&cq->fid));
}

int main(void)
{
    open_domain(FI_MSG | FI_TAGGED | FI_DIRECTED_RECV);
    address_vectors();
    queues();
    descriptors();
    poll_sets();
    counters();
    events();
    memory();
    endpoints();
    close_domain();
    puts("passed");
    return 0;
}
