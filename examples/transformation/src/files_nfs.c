/* The files of other nodes through libnfs: NFS where the kernel has none. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "job.h"

#ifdef WITH_LIBNFS
#include <nfsc/libnfs.h>

struct mount {
    struct nfs_context *nfs;
    char node[NODE_NAME_MAX];
};

struct nfs_file {
    struct mount *mount;
    struct nfsfh *handle;
    char *buffer;
    size_t len;
    int is_done, got;
};

static const char *template;
static struct mount *mounts;
static int mount_count;

static void start(const char *place)
{
    template = place;
    mounts = allocate((size_t)job.ranks, sizeof *mounts);
}

/* The node's file system, mounted at its first use. */
static struct mount *mount_of(const char *node)
{
    for (int i = 0; i < mount_count; i++)
        if (strcmp(mounts[i].node, node) == 0)
            return &mounts[i];
    struct mount *mount = &mounts[mount_count++];
    char address[4096];
    files_expand(template, node, address, sizeof address);
    strcpy(mount->node, node);
    mount->nfs = nfs_init_context();
    struct nfs_url *url = mount->nfs ? nfs_parse_url_dir(mount->nfs, address) : NULL;
    if (!url)
        fail("%s: %s", address, mount->nfs ? nfs_get_error(mount->nfs) : "no memory");
    if (nfs_mount(mount->nfs, url->server, url->path))
        fail("cannot mount %s: %s", address, nfs_get_error(mount->nfs));
    nfs_destroy_url(url);
    return mount;
}

static void *open_file(const char *node, const char *name)
{
    struct nfs_file *file = allocate(1, sizeof *file);
    char path[NODE_NAME_MAX];
    file->mount = mount_of(node);
    snprintf(path, sizeof path, "/%s", name);
    if (nfs_open(file->mount->nfs, path, O_RDONLY, &file->handle))
        fail("cannot open %s on %s: %s", name, node, nfs_get_error(file->mount->nfs));
    return file;
}

static void is_read(int status, struct nfs_context *nfs, void *data, void *context)
{
    struct nfs_file *file = context;
    (void)nfs;
    file->got = status;
    file->is_done = 1;
    if (status > 0)
        memcpy(file->buffer, data, (size_t)status);
}

static void begin(void *opened, void *buffer, size_t len, int64_t offset)
{
    struct nfs_file *file = opened;
    file->buffer = buffer;
    file->len = len;
    file->is_done = 0;
    if (nfs_pread_async(file->mount->nfs, file->handle, (uint64_t)offset, len, is_read, file))
        fail("cannot read over NFS: %s", nfs_get_error(file->mount->nfs));
}

static size_t wait_for(void *opened)
{
    struct nfs_file *file = opened;
    struct nfs_context *nfs = file->mount->nfs;
    while (!file->is_done) {
        struct pollfd fd = {.fd = nfs_get_fd(nfs), .events = (short)nfs_which_events(nfs)};
        if (poll(&fd, 1, 1000) < 0 && errno != EINTR)
            fail("poll: %s", strerror(errno));
        if (nfs_service(nfs, fd.revents) < 0)
            fail("NFS: %s", nfs_get_error(nfs));
    }
    if (file->got < 0)
        fail("cannot read over NFS: %s", nfs_get_error(nfs));
    return (size_t)file->got;
}

static void close_file(void *opened)
{
    struct nfs_file *file = opened;
    nfs_close(file->mount->nfs, file->handle);
    free(file);
}

static void stop(void)
{
    for (int i = 0; i < mount_count; i++) {
        nfs_umount(mounts[i].nfs);
        nfs_destroy_context(mounts[i].nfs);
    }
    free(mounts);
}

const struct backend files_nfs = {
    "nfs", start, open_file, begin, wait_for, close_file, stop,
};

#else

static void start(const char *place)
{
    (void)place;
    fail("--remote nfs: built without libnfs (package libnfs-dev)");
}

const struct backend files_nfs = {.name = "nfs", .start = start};

#endif
