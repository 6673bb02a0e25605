/* Files on other nodes: UNIX calls on another node's disk. Link with
 * -lwiglaf_files; for Fortran there is fortran/wiglaf_files.f90.
 *
 * Nodes, handles, folders and requests are small numbers. A call that fails
 * returns -1 and sets errno; fuerrno and fureason tell the cause again. All
 * calls may be made by several threads at once.
 *
 * Paths are absolute, in a folder that the node exports (see `export` in the
 * cluster file), or relative to the folder that rchdir entered, at first the
 * first exported one. A path that is in no exported folder or leads out of its
 * own, and devices, pipes and sockets, are refused with EACCES; fureason says
 * which it was. When a node's server has ended, every call fails with EIO.
 *
 * Files of one's own node take plain system calls, and no export limits them.
 *
 * Nothing is buffered unless rahead or rbehind ask for it: what rwrite has
 * returned for is what any later rread on any node finds. When rfsync has
 * returned, it is on the disk of the file's node.
 */
#ifndef WIGLAF_FILES_H
#define WIGLAF_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A node's number. */
typedef int NODE;

/* Begins, and ends: open files are closed, all servers end. */
int fsinit(void);
int fsend(void);

/* Attaches a node by its name: starts a server there, as the calling user. The
 * same node gives the same number again. fsdetach is to be called as often;
 * EBUSY as long as files are open there. */
NODE fsattach(const char *hostname);
int fsdetach(NODE node);
/* The name that a node was attached by. */
int fsnodename(NODE node, char *name, size_t len);

/* The errno of this thread's last failed call, and its cause in words, which
 * stay until the next. */
int fuerrno(void);
const char *fureason(void);

/* Names on a node. */
int rchdir(NODE node, const char *path);
int runlink(NODE node, const char *path);
int rrename(NODE node, const char *from, const char *to);
int rmkdir(NODE node, const char *path, unsigned mode);
int rrmdir(NODE node, const char *path);
int rtruncate(NODE node, const char *path, int64_t size);
int rstat(NODE node, const char *path, struct stat *st);
int rlstat(NODE node, const char *path, struct stat *st);
/* A file's length in bytes. */
int64_t rsize(NODE node, const char *path);

/* Opens a file with the flags of open(2); the mode of a new one is 0666, or
 * mode, less the umask. O_DIRECT, O_PATH and O_TMPFILE are refused. */
int ropen(NODE node, const char *path, int oflag);
int ropenm(NODE node, const char *path, int oflag, unsigned mode);
int rclose(int handle);
/* The node that an open file is on. */
NODE rfnode(int handle);

/* At the file's position, which moves. */
ssize_t rread(int handle, void *buf, size_t len);
ssize_t rwrite(int handle, const void *buf, size_t len);
ssize_t rreadv(int handle, const struct iovec *pieces, int count);
ssize_t rwritev(int handle, const struct iovec *pieces, int count);
int64_t rlseek(int handle, int64_t offset, int whence);

/* At an offset; the position stays. */
ssize_t rpread(int handle, void *buf, size_t len, int64_t offset);
ssize_t rpwrite(int handle, const void *buf, size_t len, int64_t offset);

int rfstat(int handle, struct stat *st);
int rfsync(int handle);
int rfdatasync(int handle);
int rftruncate(int handle, int64_t size);

/* Begins a read and returns its number at once. buf must not be touched until
 * rwait has returned for it. rtest says 1 when rwait will not wait; rwait
 * returns what rpread would have. */
int raread(int handle, void *buf, size_t len, int64_t offset);
int rtest(int request);
ssize_t rwait(int request);

/* Reads so many bytes ahead of sequential rreads, from the second one on: they
 * may be older than the call. Lets so many written bytes be under way when
 * rwrite returns: an error comes with a later call, at the latest with rfsync
 * or rclose. 0, the default, switches either off. */
int rahead(int handle, size_t len);
int rbehind(int handle, size_t len);

/* Lists a folder: rreaddir writes the next name to `name` and returns 1, or 0
 * at the end. `.` and `..` are among the names. A name that does not fit into
 * `len` bytes is ERANGE, and there for the next call. */
int ropendir(NODE node, const char *path);
int rreaddir(int folder, char *name, size_t len);
int rrewinddir(int folder);
int rclosedir(int folder);

#ifdef __cplusplus
}
#endif

#endif
