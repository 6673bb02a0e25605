/* The files of other nodes through Wiglaf's file library (docs/files.md). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "job.h"

#ifdef WITH_WIGLAF
#include <wiglaf_files.h>

struct wiglaf {
    int handle, request;
};

static const char *folder;
/* The nodes of all ranks, -1 for those of this node. */
static NODE *nodes;

static void start(const char *place)
{
    folder = place;
    if (fsinit())
        fail("fsinit: %s", fureason());
    nodes = allocate((size_t)job.ranks, sizeof *nodes);
    for (int i = 0; i < job.ranks; i++) {
        nodes[i] = -1;
        if (strcmp(job.node[i], job.node[job.rank]) == 0)
            continue;
        nodes[i] = fsattach(job.node[i]);
        if (nodes[i] < 0)
            fail("cannot attach %s: %s", job.node[i], fureason());
    }
}

static void *open_file(const char *node, const char *name)
{
    struct wiglaf *file = allocate(1, sizeof *file);
    char at[4096], path[4096 + NODE_NAME_MAX];
    files_expand(folder, node, at, sizeof at);
    snprintf(path, sizeof path, "%s/%s", at, name);
    int rank = 0;
    while (strcmp(job.node[rank], node))
        rank++;
    file->handle = ropen(nodes[rank], path, O_RDONLY);
    if (file->handle < 0)
        fail("cannot open %s on %s: %s", path, node, fureason());
    return file;
}

static void begin(void *opened, void *buffer, size_t len, int64_t offset)
{
    struct wiglaf *file = opened;
    file->request = raread(file->handle, buffer, len, offset);
    if (file->request < 0)
        fail("cannot read from another node: %s", fureason());
}

static size_t wait_for(void *opened)
{
    struct wiglaf *file = opened;
    ssize_t got = rwait(file->request);
    if (got < 0)
        fail("cannot read from another node: %s", fureason());
    return (size_t)got;
}

static void close_file(void *opened)
{
    struct wiglaf *file = opened;
    rclose(file->handle);
    free(file);
}

static void stop(void)
{
    for (int i = 0; i < job.ranks; i++)
        if (nodes[i] >= 0)
            fsdetach(nodes[i]);
    fsend();
    free(nodes);
}

const struct backend files_wiglaf = {
    "wiglaf", start, open_file, begin, wait_for, close_file, stop,
};

#else

static void start(const char *place)
{
    (void)place;
    fail("--remote wiglaf: built without Wiglaf's file library; see the Makefile");
}

const struct backend files_wiglaf = {.name = "wiglaf", .start = start};

#endif
