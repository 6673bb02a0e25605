/* Random calls on one remote file, each result compared with a copy in memory, in the manner of
 * fsx (A. Tevanian's file system exerciser, NeXT 1991):
 *
 *   fsx NODE PATH COPY SECONDS SEED
 *
 * Prints `running` after the first calls, and at the end `passed` and their number; then COPY, a
 * local file, holds what PATH must hold. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "wiglaf_files.h"

enum { SIZE_MAX_BYTES = 1 << 20, LEN_MAX = 300000, CALLS_FIRST = 20, CALLS_PER_LIFE = 50 };

static unsigned char model[SIZE_MAX_BYTES], buffer[LEN_MAX];
static int64_t size;
static uint64_t state;
static long calls;

/* xorshift64 (Marsaglia 2003) */
static uint64_t below(uint64_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 16) % limit;
}

static void need(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "call %ld, %s: %s (errno %d)\n", calls, what, fureason(), fuerrno());
        exit(1);
    }
}

static void write_some(int handle)
{
    int64_t at = below(SIZE_MAX_BYTES), len = 1 + below(LEN_MAX);
    if (at + len > SIZE_MAX_BYTES)
        len = SIZE_MAX_BYTES - at;
    for (int64_t i = 0; i < len; i++)
        buffer[i] = (unsigned char)(i * 7 + calls);
    need(rpwrite(handle, buffer, len, at) == len, "rpwrite");
    memcpy(model + at, buffer, len);
    if (at + len > size)
        size = at + len;
}

static void read_some(int handle)
{
    int64_t at = below(SIZE_MAX_BYTES), len = below(LEN_MAX);
    int64_t expected = at >= size ? 0 : at + len > size ? size - at : len;
    memset(buffer, 0xee, len);
    need(rpread(handle, buffer, len, at) == expected, "rpread");
    need(memcmp(buffer, model + at, expected) == 0, "rpread gave other bytes");
}

static void cut_or_grow(int handle)
{
    int64_t to = below(SIZE_MAX_BYTES);
    need(rftruncate(handle, to) == 0, "rftruncate");
    /* Beyond the end the model holds what reads of a hole give. */
    if (to < size)
        memset(model + to, 0, size - to);
    size = to;
}

static void check_size(int handle)
{
    struct stat st;
    need(rfstat(handle, &st) == 0, "rfstat");
    need(st.st_size == size, "the size is another");
}

/* One life of a handle: buffered or not. */
static void live(NODE node, const char *path)
{
    int handle = ropen(node, path, O_RDWR | O_CREAT);
    need(handle >= 0, "ropen");
    if (below(2) == 0) {
        need(rahead(handle, 1 << 16) == 0, "rahead");
        need(rbehind(handle, 1 << 16) == 0, "rbehind");
    }
    for (int i = 0; i < CALLS_PER_LIFE; i++, calls++) {
        switch (below(8)) {
        case 0: cut_or_grow(handle); break;
        case 1: check_size(handle); break;
        case 2: case 3: case 4: write_some(handle); break;
        default: read_some(handle);
        }
        if (calls == CALLS_FIRST) {
            puts("running");
            fflush(stdout);
        }
    }
    need(rfsync(handle) == 0, "rfsync");
    need(rclose(handle) == 0, "rclose");
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    double seconds = atof(argv[4]);
    state = strtoull(argv[5], NULL, 10) | 1;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    need(fsinit() == 0, "fsinit");
    NODE node = fsattach(argv[1]);
    need(node >= 0, "fsattach");
    do {
        live(node, argv[2]);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
    int copy = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (copy < 0 || write(copy, model, size) != size || close(copy) != 0) {
        perror(argv[3]);
        return 1;
    }
    need(fsdetach(node) == 0 && fsend() == 0, "fsdetach");
    printf("passed %ld\n", calls);
    return 0;
}
