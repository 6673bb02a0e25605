#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mpi.h>

#include "job.h"

enum { PATH_LEN = 4096, NAME_LEN = 128, OWN_MAX = 8, WRITE_BYTES = 1 << 20 };

struct files_counts files_counts;

/* The way to other nodes, if there are any. */
static const struct backend *remote;
/* The folder of this node's files. */
static char scratch[PATH_LEN];
/* Tells jobs from each other; the same in all ranks. */
static int job_number;
/* This rank's files, to be removed. */
static char own[OWN_MAX][NAME_LEN];
static int own_count;

static void file_name(int owner, const char *name, char *out)
{
    snprintf(out, NAME_LEN, "transformation-%d-%s.%d", job_number, name, owner);
}

static void join(const char *folder, const char *file, char *path, size_t len)
{
    if (snprintf(path, len, "%s/%s", folder, file) >= (int)len)
        fail("--scratch is too long");
}

void files_own_path(const char *name, char *path, size_t len)
{
    char file[NAME_LEN];
    file_name(job.rank, name, file);
    join(scratch, file, path, len);
    for (int i = 0; i < own_count; i++)
        if (strcmp(own[i], file) == 0)
            return;
    if (own_count == OWN_MAX)
        fail("more than %d files in a rank", OWN_MAX);
    strcpy(own[own_count++], file);
}

void files_expand(const char *template, const char *node, char *path, size_t len)
{
    size_t used = 0;
    const char *rest = template;
    for (; *rest && used < len; rest++) {
        if (rest[0] == '%' && rest[1] == 'n') {
            used += (size_t)snprintf(path + used, len - used, "%s", node);
            rest++;
        } else {
            path[used++] = *rest;
        }
    }
    if (used >= len)
        fail("`%s` is too long for a path", template);
    path[used] = 0;
}

static int is_elsewhere(int rank)
{
    return strcmp(job.node[rank], job.node[job.rank]) != 0;
}

void files_start(void)
{
    const char *way = job.options.remote;
    files_expand(job.options.scratch, job.node[job.rank], scratch, sizeof scratch);
    job_number = getpid();
    MPI_Bcast(&job_number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (strncmp(way, "path:", 5) == 0) {
        remote = &files_path;
        way += 5;
    } else if (strncmp(way, "nfs:", 4) == 0) {
        remote = &files_nfs;
    } else if (strcmp(way, "wiglaf") == 0 || strncmp(way, "wiglaf:", 7) == 0) {
        remote = &files_wiglaf;
        way = way[6] ? way + 7 : job.options.scratch;
    } else if (strcmp(way, "none")) {
        fail("--remote %s: it is none, path:TEMPLATE, nfs://..., or wiglaf", way);
    }
    for (int i = 0; i < job.ranks && !remote; i++)
        if (is_elsewhere(i))
            fail("there are several nodes; --remote says how to reach the files of the others");
    if (remote)
        remote->start(way);
}

void files_stop(void)
{
    if (remote)
        remote->stop();
    for (int i = 0; i < own_count; i++) {
        char path[PATH_LEN];
        join(scratch, own[i], path, sizeof path);
        files_remove(path);
    }
}

/* Some file servers keep a removed file open for a minute or more; its space is wanted now. */
void files_remove(const char *path)
{
    if (truncate(path, 0) == 0)
        unlink(path);
}

/* ---- what a rank writes ---- */

struct output {
    int fd;
    size_t used;
    char path[PATH_LEN];
    char buffer[WRITE_BYTES];
};

struct output *output_create(const char *name)
{
    struct output *output = allocate(1, sizeof *output);
    files_own_path(name, output->path, sizeof output->path);
    output->fd = open(output->path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (output->fd < 0)
        fail("cannot create %s: %s", output->path, strerror(errno));
    return output;
}

static void write_all(struct output *output, const char *data, size_t len)
{
    while (len) {
        ssize_t written = write(output->fd, data, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail("cannot write to %s: %s", output->path, strerror(errno));
        data += written;
        len -= (size_t)written;
    }
}

void output_write(struct output *output, const void *data, size_t len)
{
    if (output->used + len > WRITE_BYTES) {
        write_all(output, output->buffer, output->used);
        output->used = 0;
    }
    if (len > WRITE_BYTES) {
        write_all(output, data, len);
        return;
    }
    memcpy(output->buffer + output->used, data, len);
    output->used += len;
}

void output_close(struct output *output)
{
    write_all(output, output->buffer, output->used);
    if (close(output->fd))
        fail("cannot write to %s: %s", output->path, strerror(errno));
    free(output);
}

/* ---- what all ranks read ---- */

struct input {
    const struct backend *way;
    void *file;
    int owner;
    int64_t *counter;
    int64_t offset, end;   /* what is still to be begun */
    size_t under_way;      /* bytes of the read that was begun, 0: none */
    int current;           /* the buffer that it goes to */
    char *buffer[2];
};

struct input *input_open(int owner, const char *name)
{
    struct input *input = allocate(1, sizeof *input);
    char file[NAME_LEN];
    file_name(owner, name, file);
    if (is_elsewhere(owner)) {
        input->way = remote;
        input->counter = &files_counts.remote;
        input->file = remote->open(job.node[owner], file);
    } else {
        char path[PATH_LEN];
        join(scratch, file, path, sizeof path);
        input->way = &files_path;
        input->counter = &files_counts.local;
        input->file = files_open_plain(path);
    }
    for (int i = 0; i < 2; i++)
        input->buffer[i] = allocate(1, job.options.read_size);
    return input;
}

static void begin_next(struct input *input)
{
    int64_t left = input->end - input->offset;
    input->under_way = left < (int64_t)job.options.read_size ? (size_t)left
                                                             : job.options.read_size;
    if (!input->under_way)
        return;
    input->way->begin(input->file, input->buffer[input->current], input->under_way,
                      input->offset);
    input->offset += (int64_t)input->under_way;
}

void input_range(struct input *input, int64_t offset, int64_t len)
{
    if (input->under_way)
        fail("a range was begun before the last one was read");
    input->offset = offset;
    input->end = offset + len;
    begin_next(input);
}

size_t input_next(struct input *input, const void **data)
{
    size_t len = input->under_way;
    if (!len)
        return 0;
    if (input->way->wait(input->file) != len)
        fail("the file of rank %d on %s ends too soon", input->owner, job.node[input->owner]);
    *input->counter += (int64_t)len;
    *data = input->buffer[input->current];
    input->current ^= 1;
    begin_next(input);
    return len;
}

void input_close(struct input *input)
{
    input->way->close(input->file);
    free(input->buffer[0]);
    free(input->buffer[1]);
    free(input);
}
