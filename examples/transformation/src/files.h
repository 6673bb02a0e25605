/* Files: each rank writes on its own node's disk and reads there and, through
 * one of several ways that are chosen at run time, on the disks of the others.
 *
 *   none              there are no other nodes
 *   path:/mnt/%n      a file system that everyone sees: a FUSE mount, sshfs,
 *                     NFS; %n is the name of the node that has the file
 *   nfs://%n/scratch  libnfs, where the kernel has no NFS; with its options
 *   wiglaf[:/scratch] Wiglaf's file library
 *
 * Each names the folder that the other node knows as --scratch, in which %n may
 * stand as well. */
#ifndef FILES_H
#define FILES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes read since the beginning. */
struct files_counts {
    int64_t local, remote;
};
extern struct files_counts files_counts;

/* Begins and ends; every rank calls both. The end removes this rank's files. */
void files_start(void);
void files_stop(void);

/* The path of this rank's own file `name`, on its own disk. */
void files_own_path(const char *name, char *path, size_t len);

/* Removes one of them, and gives its space back even if somebody has it open. */
void files_remove(const char *path);

/* A file of this rank's, written from beginning to end. */
struct output;
struct output *output_create(const char *name);
void output_write(struct output *output, const void *data, size_t len);
void output_close(struct output *output);

/* A file of any rank's, whole when it is opened. Ranges of it are read in
 * pieces of at most --read-size bytes, the next one being under way while the
 * caller works on one. */
struct input;
struct input *input_open(int owner, const char *name);
void input_range(struct input *input, int64_t offset, int64_t len);
/* The next piece and its length, 0 at the range's end. */
size_t input_next(struct input *input, const void **data);
void input_close(struct input *input);

/* One way to read the files of other nodes. What fails ends the job. */
struct backend {
    const char *name;
    /* Told what stands behind the name in --remote. */
    void (*start)(const char *place);
    void *(*open)(const char *node, const char *name);
    /* Begins a read; there is never more than one of a file. */
    void (*begin)(void *file, void *buffer, size_t len, int64_t offset);
    /* Waits for it, and returns its length: shorter at the file's end only. */
    size_t (*wait)(void *file);
    void (*close)(void *file);
    void (*stop)(void);
};

extern const struct backend files_path, files_nfs, files_wiglaf;

/* A file of files_path, by its whole path. */
void *files_open_plain(const char *path);

/* `template` with the node's name in place of each %n. */
void files_expand(const char *template, const char *node, char *path, size_t len);

#endif
