/* Calls that the standard library of Rust does not make, on one file: `calls append|sync|allocate FILE`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PART_LEN = 1 << 20, PARTS = 8, ROUNDS = 8 };

static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* Appends more than the kernel hands to a mount at once, in a call that does not wait. */
static void append(const char *name) {
    char *content;
    must(posix_memalign((void **)&content, 4096, (size_t)PARTS * PART_LEN) == 0, "posix_memalign");
    aio_context_t context = 0;
    must(syscall(SYS_io_setup, 1, &context) == 0, "io_setup");
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_DIRECT, 0600);
    must(fd >= 0, "open");
    for (int round = 0; round < ROUNDS; round++) {
        for (int part = 0; part < PARTS; part++)
            memset(content + (size_t)part * PART_LEN, 'a' + part, PART_LEN);
        struct iocb call = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd};
        call.aio_buf = (unsigned long)content;
        call.aio_nbytes = (size_t)PARTS * PART_LEN;
        struct iocb *calls = &call;
        struct io_event end;
        must(syscall(SYS_io_submit, context, 1, &calls) == 1, "io_submit");
        must(syscall(SYS_io_getevents, context, 1, 1, &end, NULL) == 1, "io_getevents");
        printf("%lld\n", (long long)end.res);
    }
}

/* Asks for the disk by call, then for the whole file. Prints what each write gave, or its errno. */
static void sync_by_call(const char *name) {
    struct iovec piece = {.iov_base = "0", .iov_len = 1};
    int opened[] = {0, O_DSYNC, O_SYNC}, asked[] = {0, RWF_DSYNC, RWF_SYNC};
    for (int i = 0; i < 3; i++) {
        int fd = open(name, O_WRONLY | opened[i]);
        must(fd >= 0, "open");
        for (int j = 0; j < 3; j++) {
            ssize_t count = pwritev2(fd, &piece, 1, 0, asked[j]);
            printf("%d%s", count < 0 ? -errno : (int)count, j < 2 ? " " : "\n");
        }
        close(fd);
    }
}

/* Room for a file that has no name. */
static void allocate(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    must(fd >= 0, "open");
    must(unlink(name) == 0, "unlink");
    struct stat about;
    errno = posix_fallocate(fd, 0, 100000);
    must(errno == 0, "posix_fallocate");
    must(fstat(fd, &about) == 0, "fstat");
    printf("%lld\n", (long long)about.st_size);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (strcmp(argv[1], "append") == 0) append(argv[2]);
    else if (strcmp(argv[1], "sync") == 0) sync_by_call(argv[2]);
    else if (strcmp(argv[1], "allocate") == 0) allocate(argv[2]);
    else return 2;
    return 0;
}
