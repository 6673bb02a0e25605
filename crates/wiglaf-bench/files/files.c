/* Remote files by one way of reaching them: sequential writes and reads, reads of 4 KiB here and
 * there, and many small files. Every way runs these very loops.
 *
 *   files measure WAY FOLDER STREAM_BYTES READS SMALL_FILES
 *
 * WAY is `posix` (a folder that is local or mounted), `tcp:IP` (no file: one raw stream), and, where
 * the program was built with them, `nfs:IP` (libnfs) and `wiglaf:NODE:BUFFER` (Wiglaf's library;
 * BUFFER bytes are read ahead and written behind, 0 for none). FOLDER lies on the file's node, or is
 * where that is mounted.
 *
 *   files prepare FOLDER SMALL_FILES    on the file's node: makes the small files
 *   files serve PORT                    on the file's node: the other side of `tcp`
 *   files wait-port IP PORT             until somebody listens there
 *   files wait-mount FOLDER             until something is mounted there
 *
 * `measure` prints one JSON line for each row: every call in nanoseconds, and the whole from the
 * opening of the file to its close, by when all bytes have reached the file's node. Contents are
 * checked: some words in each call, all bytes of the file's beginning in the end. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_NFS
#include <nfsc/libnfs.h>
#endif
#ifdef WITH_WIGLAF
#include "wiglaf_files.h"
#endif

enum { CALL_LEN = 1 << 20, READ_LEN = 4096, SMALL_LEN = 1024, FOLDER_FILES = 1000, PATIENCE_S = 15 };
enum { TCP_PORT = 7799, CHECKED_CALLS = 16 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "wiglaf-bench: %s: %s\n", what, why);
    exit(3);
}

static void *need(size_t len) {
    void *memory = aligned_alloc(4096, (len + 4096) / 4096 * 4096);
    if (!memory) fail("memory", "there is not enough");
    return memset(memory, 0, len);
}

static int64_t number(const char *text, int64_t max) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 0 || value > max) fail(text, "not a good number");
    return value;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorted and run-length coded: exact, and far shorter than a plain list. */
static void print_row(const char *row, int64_t bytes, int64_t whole_ns, int64_t *ns, int64_t count) {
    qsort(ns, (size_t)count, sizeof *ns, by_value);
    printf("{\"row\":\"%s\",\"bytes\":%lld,\"whole_ns\":%lld,\"call_ns\":[", row, (long long)bytes,
           (long long)whole_ns);
    for (int64_t i = 0; i < count;) {
        int64_t same = i;
        while (same < count && ns[same] == ns[i]) same++;
        printf("%s[%lld,%lld]", i ? "," : "", (long long)ns[i], (long long)(same - i));
        i = same;
    }
    puts("]}");
    fflush(stdout);
}

/* What stands at a place of a file. */
static uint64_t word(uint64_t offset) { return (offset + 1) * 0x9e3779b97f4a7c15u; }

/* The ways. Each function returns what the call of UNIX does and fails the program otherwise. */
struct way {
    void (*begin)(const char *where);
    void (*open)(const char *path, int flags);
    ssize_t (*read)(void *into, size_t len);
    ssize_t (*read_at)(void *into, size_t len, int64_t offset);
    ssize_t (*write)(const void *bytes, size_t len);
    void (*close)(void);
    int64_t (*size)(const char *path);
    void (*unlink)(const char *path);
    void (*end)(void);
};

static int fd = -1;

static void posix_begin(const char *where) { (void)where; }
static void posix_open(const char *path, int flags) {
    fd = open(path, flags, 0644);
    if (fd < 0) fail(path, strerror(errno));
}
static ssize_t posix_read(void *into, size_t len) { return read(fd, into, len); }
static ssize_t posix_read_at(void *into, size_t len, int64_t at) { return pread(fd, into, len, at); }
static ssize_t posix_write(const void *bytes, size_t len) { return write(fd, bytes, len); }
static void posix_close(void) {
    if (close(fd)) fail("close", strerror(errno));
}
static int64_t posix_size(const char *path) {
    struct stat st;
    if (stat(path, &st)) fail(path, strerror(errno));
    return st.st_size;
}
static void posix_unlink(const char *path) {
    if (unlink(path)) fail(path, strerror(errno));
}
static void posix_end(void) {}
static const struct way POSIX = {posix_begin, posix_open, posix_read,   posix_read_at, posix_write,
                                 posix_close, posix_size, posix_unlink, posix_end};

/* One stream. A request is three numbers: what (0 read at random, 1 read, 2 write), how many bytes,
 * and in pieces of which length. Nothing is stored: what is read is the first piece's content. */
struct request {
    uint64_t what, bytes, piece;
};

static void whole_read(int from, void *into, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t got = recv(from, (char *)into + done, len - done, MSG_WAITALL);
        if (got <= 0) fail("the stream", got ? strerror(errno) : "it ended");
        done += (size_t)got;
    }
}

static void whole_write(int to, const void *bytes, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t put = send(to, (const char *)bytes + done, len - done, MSG_NOSIGNAL);
        if (put < 0) fail("the stream", strerror(errno));
        done += (size_t)put;
    }
}

static int connected(const char *ip, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, ip, &at.sin_addr) != 1) fail(ip, "not an address");
    int one = 1, socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0) fail("socket", strerror(errno));
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(socket_fd, (struct sockaddr *)&at, sizeof at)) {
        close(socket_fd);
        return -1;
    }
    return socket_fd;
}

static int64_t tcp_left;
static int tcp_writes;

static void tcp_begin(const char *where) {
    fd = connected(where, TCP_PORT);
    if (fd < 0) fail(where, strerror(errno));
}
static void tcp_ask(uint64_t what, uint64_t bytes, uint64_t piece) {
    struct request request = {what, bytes, piece};
    whole_write(fd, &request, sizeof request);
}
static void tcp_open(const char *path, int flags) {
    (void)path;
    tcp_writes = flags != O_RDONLY;
    if (tcp_left) tcp_ask(tcp_writes ? 2 : 1, (uint64_t)tcp_left, CALL_LEN);
}
static ssize_t tcp_read(void *into, size_t len) {
    whole_read(fd, into, len);
    return (ssize_t)len;
}
static ssize_t tcp_read_at(void *into, size_t len, int64_t offset) {
    (void)offset;
    tcp_ask(0, len, len);
    return tcp_read(into, len);
}
static ssize_t tcp_write(const void *bytes, size_t len) {
    whole_write(fd, bytes, len);
    return (ssize_t)len;
}
static void tcp_close(void) {
    char answer;
    if (tcp_writes) whole_read(fd, &answer, 1);
}
static int64_t tcp_size(const char *path) {
    (void)path;
    return -1;
}
static void tcp_unlink(const char *path) { (void)path; }
static void tcp_end(void) { close(fd); }
static const struct way TCP = {tcp_begin, tcp_open,  tcp_read,   tcp_read_at, tcp_write,
                               tcp_close, tcp_size, tcp_unlink, tcp_end};

#ifdef WITH_NFS
static struct nfs_context *nfs;
static struct nfsfh *nfs_file;

static void nfs_fail(const char *what) { fail(what, nfs_get_error(nfs)); }
static void nfs_begin(const char *where) {
    nfs = nfs_init_context();
    if (!nfs) fail("libnfs", "no context");
    /* Whatever libnfs could keep on this side is off, which is its default. */
    nfs_set_pagecache(nfs, 0);
    nfs_set_readahead(nfs, 0);
    if (nfs_set_version(nfs, 3)) nfs_fail("version 3");
    nfs_set_uid(nfs, (int)getuid());
    nfs_set_gid(nfs, (int)getgid());
    if (nfs_mount(nfs, where, "/scratch")) nfs_fail("mount");
}
static const char *nfs_path(const char *path) {
    if (strncmp(path, "/scratch/", 9)) fail(path, "not below /scratch");
    return path + 8;
}
static void nfs_open_file(const char *path, int flags) {
    int failed = flags & O_CREAT ? nfs_create(nfs, nfs_path(path), flags, 0644, &nfs_file)
                                 : nfs_open(nfs, nfs_path(path), flags, &nfs_file);
    if (failed) nfs_fail(path);
}
/* libnfs moves at most what one request of the server's moves. */
static ssize_t nfs_read_next(void *into, size_t len) {
    size_t done = 0;
    while (done < len) {
        int got = nfs_read(nfs, nfs_file, len - done, (char *)into + done);
        if (got < 0) nfs_fail("read");
        if (!got) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}
static ssize_t nfs_read_there(void *into, size_t len, int64_t offset) {
    return nfs_pread(nfs, nfs_file, (uint64_t)offset, len, into);
}
static ssize_t nfs_write_next(const void *bytes, size_t len) {
    for (size_t done = 0; done < len;) {
        int put = nfs_write(nfs, nfs_file, len - done, (char *)(uintptr_t)bytes + done);
        if (put <= 0) nfs_fail("write");
        done += (size_t)put;
    }
    return (ssize_t)len;
}
static void nfs_close_file(void) {
    if (nfs_close(nfs, nfs_file)) nfs_fail("close");
}
static int64_t nfs_size(const char *path) {
    struct nfs_stat_64 st;
    if (nfs_stat64(nfs, nfs_path(path), &st)) nfs_fail(path);
    return (int64_t)st.nfs_size;
}
static void nfs_unlink_file(const char *path) {
    if (nfs_unlink(nfs, nfs_path(path))) nfs_fail(path);
}
static void nfs_end(void) { nfs_destroy_context(nfs); }
static const struct way NFS = {nfs_begin,      nfs_open_file,  nfs_read_next,
                               nfs_read_there, nfs_write_next, nfs_close_file,
                               nfs_size,       nfs_unlink_file, nfs_end};
#endif

#ifdef WITH_WIGLAF
static NODE node;
static int file;
static size_t buffer_len;

static void r_fail(const char *what) { fail(what, fureason()); }
static void r_begin(const char *where) {
    char name[64] = "";
    if (sscanf(where, "%63[^:]:%zu", name, &buffer_len) != 2) fail(where, "not NODE:BUFFER");
    if (fsinit()) r_fail("fsinit");
    node = fsattach(name);
    if (node < 0) r_fail(name);
}
static void r_open(const char *path, int flags) {
    file = ropen(node, path, flags);
    if (file < 0) r_fail(path);
    if (buffer_len && (rahead(file, buffer_len) || rbehind(file, buffer_len))) r_fail("buffers");
}
static ssize_t r_read(void *into, size_t len) { return rread(file, into, len); }
static ssize_t r_read_at(void *into, size_t len, int64_t at) { return rpread(file, into, len, at); }
static ssize_t r_write(const void *bytes, size_t len) { return rwrite(file, bytes, len); }
static void r_close(void) {
    if (rclose(file)) r_fail("rclose");
}
static int64_t r_size(const char *path) {
    struct stat st;
    if (rstat(node, path, &st)) r_fail(path);
    return st.st_size;
}
static void r_unlink(const char *path) {
    if (runlink(node, path)) r_fail(path);
}
static void r_end(void) {
    if (fsend()) r_fail("fsend");
}
static const struct way WIGLAF = {r_begin, r_open, r_read,   r_read_at, r_write,
                                  r_close, r_size, r_unlink, r_end};
#endif

static const struct way *way_of(const char *name, const char **where) {
    const char *colon = strchr(name, ':');
    size_t len = colon ? (size_t)(colon - name) : strlen(name);
    *where = colon ? colon + 1 : "";
    if (!strncmp(name, "tcp", len)) return &TCP;
#ifdef WITH_NFS
    if (!strncmp(name, "nfs", len)) return &NFS;
#endif
#ifdef WITH_WIGLAF
    if (!strncmp(name, "wiglaf", len)) return &WIGLAF;
#endif
    if (strcmp(name, "posix")) fail(name, "no way that this program was built with");
    return &POSIX;
}

static void check_words(const unsigned char *bytes, size_t len, int64_t offset, int64_t stamp) {
    uint64_t first, last;
    memcpy(&first, bytes, 8);
    memcpy(&last, bytes + len - 8, 8);
    uint64_t expected = offset % CALL_LEN ? word((uint64_t)(offset % CALL_LEN)) : word((uint64_t)stamp);
    if (first != expected || last != word((uint64_t)(offset % CALL_LEN) + len - 8))
        fail("content", "other bytes were read than were written");
}

/* A call's worth: its words say where in the call they stand, the first one where in the file. */
static unsigned char *pattern(void) {
    unsigned char *bytes = need(CALL_LEN);
    for (uint64_t at = 0; at < CALL_LEN; at += 8) {
        uint64_t value = word(at);
        memcpy(bytes + at, &value, 8);
    }
    return bytes;
}

static void stream(const struct way *way, const char *path, int64_t bytes, int64_t *ns) {
    unsigned char *out = pattern(), *in = need(CALL_LEN);
    int64_t calls = bytes / CALL_LEN;
    for (int writes = 1; writes >= 0; writes--) {
        tcp_left = bytes;
        int64_t began = now_ns();
        way->open(path, writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY);
        for (int64_t call = 0; call < calls; call++) {
            uint64_t stamp = word((uint64_t)(call * CALL_LEN));
            if (writes) memcpy(out, &stamp, 8);
            int64_t from = now_ns();
            ssize_t done = writes ? way->write(out, CALL_LEN) : way->read(in, CALL_LEN);
            ns[call] = now_ns() - from;
            if (done != CALL_LEN) fail(path, writes ? "a short write" : "a short read");
            if (!writes && way != &TCP)
                check_words(in, CALL_LEN, call * CALL_LEN, call * CALL_LEN);
        }
        way->close();
        print_row(writes ? "write" : "read", calls * CALL_LEN, now_ns() - began, ns, calls);
    }
    if (way == &TCP) return;
    /* All bytes of some calls; not timed. */
    way->open(path, O_RDONLY);
    for (int64_t call = 0; call < calls && call < CHECKED_CALLS; call++) {
        if (way->read(in, CALL_LEN) != CALL_LEN) fail(path, "a short read");
        if (memcmp(in + 8, out + 8, CALL_LEN - 8)) fail(path, "wrong bytes");
    }
    way->close();
    free(in);
    free(out);
}

/* Each page once at most, after the file was opened anew: no cache of a client has it. */
static void reads(const struct way *way, const char *path, int64_t bytes, int64_t count, int64_t *ns) {
    unsigned char *in = need(READ_LEN);
    int64_t pages = bytes / READ_LEN;
    tcp_left = 0;
    way->open(path, O_RDONLY);
    tcp_writes = 0;
    int64_t began = now_ns();
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = i * 7919 % pages * READ_LEN;
        int64_t from = now_ns();
        ssize_t got = way->read_at(in, READ_LEN, offset);
        ns[i] = now_ns() - from;
        if (got != READ_LEN) fail(path, "a short read");
        if (way != &TCP) check_words(in, READ_LEN, offset, offset / CALL_LEN * CALL_LEN);
    }
    print_row("read-4k", count * READ_LEN, now_ns() - began, ns, count);
    way->close();
    free(in);
}

static void small_path(char *path, size_t len, const char *folder, int64_t i) {
    snprintf(path, len, "%s/small/%03lld/%06lld", folder, (long long)(i / FOLDER_FILES), (long long)i);
}

/* stat, open, read and close of each file, once, in the order of their names. */
static void small(const struct way *way, const char *folder, int64_t count, int64_t *ns) {
    char path[4096];
    unsigned char in[SMALL_LEN + 1];
    int64_t began = now_ns();
    for (int64_t i = 0; i < count; i++) {
        small_path(path, sizeof path, folder, i);
        int64_t from = now_ns();
        int64_t size = way->size(path);
        way->open(path, O_RDONLY);
        ssize_t got = way->read(in, sizeof in);
        way->close();
        ns[i] = now_ns() - from;
        uint64_t first, expected = word((uint64_t)i);
        memcpy(&first, in, 8);
        if (size != SMALL_LEN || got != SMALL_LEN || first != expected)
            fail(path, "not the file that was made");
    }
    print_row("small-files", count * SMALL_LEN, now_ns() - began, ns, count);
}

static void measure(char **args) {
    const char *where, *folder = args[1];
    const struct way *way = way_of(args[0], &where);
    int64_t bytes = number(args[2], (int64_t)1 << 40) / CALL_LEN * CALL_LEN;
    int64_t count = number(args[3], 1 << 24), files = number(args[4], FOLDER_FILES * 1000);
    int64_t most = bytes / CALL_LEN > count ? bytes / CALL_LEN : count;
    int64_t *ns = need((size_t)(most > files ? most : files) * sizeof *ns);
    if (count > bytes / READ_LEN) fail("reads", "more than the file has pages");
    char path[4096];
    snprintf(path, sizeof path, "%s/stream", folder);
    way->begin(where);
    stream(way, path, bytes, ns);
    if (count) reads(way, path, bytes, count, ns);
    way->unlink(path);
    if (files && way != &TCP) small(way, folder, files, ns);
    way->end();
}

static void prepare(char **args) {
    int64_t count = number(args[1], FOLDER_FILES * 1000);
    unsigned char bytes[SMALL_LEN] = {0};
    char path[4096];
    umask(0);
    snprintf(path, sizeof path, "%s/small", args[0]);
    if ((mkdir(args[0], 0777) && errno != EEXIST) || (mkdir(path, 0777) && errno != EEXIST))
        fail(path, strerror(errno));
    for (int64_t i = 0; i < count; i++) {
        small_path(path, sizeof path, args[0], i);
        if (i % FOLDER_FILES == 0) {
            char *slash = strrchr(path, '/');
            *slash = 0;
            if (mkdir(path, 0777) && errno != EEXIST) fail(path, strerror(errno));
            *slash = '/';
        }
        uint64_t first = word((uint64_t)i);
        memcpy(bytes, &first, 8);
        posix_open(path, O_WRONLY | O_CREAT | O_TRUNC);
        if (posix_write(bytes, SMALL_LEN) != SMALL_LEN) fail(path, strerror(errno));
        posix_close();
    }
}

/* One client after the other. */
static void serve(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned char *bytes = need(CALL_LEN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 4))
        fail("listen", strerror(errno));
    for (;;) {
        struct request request;
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) fail("accept", strerror(errno));
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (recv(client, &request, sizeof request, MSG_WAITALL) == sizeof request) {
            if (request.piece == 0 || request.piece > CALL_LEN) fail("request", "a bad length");
            for (uint64_t done = 0; done < request.bytes; done += request.piece) {
                if (request.what == 2) whole_read(client, bytes, request.piece);
                else whole_write(client, bytes, request.piece);
            }
            if (request.what == 2) whole_write(client, ".", 1);
        }
        close(client);
    }
}

static int is_mounted(const char *folder) {
    char parent[4096];
    struct stat here, above;
    snprintf(parent, sizeof parent, "%s/..", folder);
    return !stat(folder, &here) && !stat(parent, &above) && here.st_dev != above.st_dev;
}

static void wait_for(const char *ip, int port, const char *folder) {
    int64_t give_up = now_ns() + (int64_t)PATIENCE_S * 1000000000;
    for (;;) {
        int client = ip ? connected(ip, port) : -1;
        if (client >= 0) close(client);
        if (client >= 0 || (folder && is_mounted(folder))) return;
        if (now_ns() > give_up) fail(ip ? ip : folder, "nothing came");
        usleep(20000);
    }
}

int main(int count, char **args) {
    const char *what = count > 1 ? args[1] : "";
    if (count == 7 && !strcmp(what, "measure")) measure(args + 2);
    else if (count == 4 && !strcmp(what, "prepare")) prepare(args + 2);
    else if (count == 3 && !strcmp(what, "serve")) serve((int)number(args[2], 65535));
    else if (count == 4 && !strcmp(what, "wait-port")) wait_for(args[2], (int)number(args[3], 65535), NULL);
    else if (count == 3 && !strcmp(what, "wait-mount")) wait_for(NULL, 0, args[2]);
    else fail("usage", "see the beginning of files.c");
    return 0;
}
