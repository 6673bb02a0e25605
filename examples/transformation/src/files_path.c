/* Plain files: those of the own node, and of others where a file system shows
 * them: a FUSE mount, sshfs, NFS. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "job.h"

struct plain {
    int fd;
    char *buffer;
    size_t len;
    int64_t offset;
    char path[4096];
};

static const char *template;

static void start(const char *place)
{
    template = place;
}

void *files_open_plain(const char *path)
{
    struct plain *plain = allocate(1, sizeof *plain);
    if (strlen(path) >= sizeof plain->path)
        fail("a path is too long: %s", path);
    strcpy(plain->path, path);
    plain->fd = open(path, O_RDONLY);
    if (plain->fd < 0)
        fail("cannot open %s: %s", path, strerror(errno));
    posix_fadvise(plain->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return plain;
}

static void *open_file(const char *node, const char *name)
{
    char folder[4096], path[4096 + NODE_NAME_MAX];
    files_expand(template, node, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return files_open_plain(path);
}

/* The kernel reads ahead meanwhile, as far as the file system lets it. */
static void begin(void *file, void *buffer, size_t len, int64_t offset)
{
    struct plain *plain = file;
    plain->buffer = buffer;
    plain->len = len;
    plain->offset = offset;
    posix_fadvise(plain->fd, offset, (off_t)len, POSIX_FADV_WILLNEED);
}

static size_t wait_for(void *file)
{
    struct plain *plain = file;
    size_t done = 0;
    while (done < plain->len) {
        ssize_t got = pread(plain->fd, plain->buffer + done, plain->len - done,
                            plain->offset + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail("cannot read %s: %s", plain->path, strerror(errno));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return done;
}

static void close_file(void *file)
{
    struct plain *plain = file;
    close(plain->fd);
    free(plain);
}

static void stop(void)
{
}

const struct backend files_path = {
    "path", start, open_file, begin, wait_for, close_file, stop,
};
