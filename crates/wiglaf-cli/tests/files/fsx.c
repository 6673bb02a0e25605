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

enum {
    SIZE_MAX_BYTES = 1 << 20,
    LEN_MAX = 300000,
    SHORT_MAX = 9000,
    CALLS_FIRST = 20,
    TURNS_PER_LIFE = 50,
    STEPS_MAX = 12,
};

static unsigned char model[SIZE_MAX_BYTES], buffer[LEN_MAX];
/* The file's length, the position, and where the last call there began. */
static int64_t size, position, before;
static uint64_t state;
static long calls;
static int has_begun;

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

/* Other bytes with every call and at every place, so that parts that are exchanged show. */
static void make(int64_t at, int64_t len)
{
    for (int64_t i = 0; i < len; i++)
        buffer[i] = (uint32_t)((at + i + calls * 7919) * 2654435761u) >> 24;
}

static void was_written(int64_t at, int64_t len)
{
    memcpy(model + at, buffer, len);
    /* Nothing, written behind the end, moves no end. */
    if (len > 0 && at + len > size)
        size = at + len;
}

/* How many of so many bytes there are to read. */
static int64_t there(int64_t at, int64_t len)
{
    return at >= size ? 0 : at + len > size ? size - at : len;
}

static void write_some(int handle)
{
    int64_t at = below(SIZE_MAX_BYTES), len = 1 + below(LEN_MAX);
    if (at + len > SIZE_MAX_BYTES)
        len = SIZE_MAX_BYTES - at;
    make(at, len);
    need(rpwrite(handle, buffer, len, at) == len, "rpwrite");
    was_written(at, len);
}

static void read_some(int handle)
{
    int64_t at = below(SIZE_MAX_BYTES), len = below(LEN_MAX), expected = there(at, len);
    memset(buffer, 0xee, len);
    need(rpread(handle, buffer, len, at) == expected, "rpread");
    need(memcmp(buffer, model + at, expected) == 0, "rpread gave other bytes");
}

/* Where to go on: anywhere, where the last call began, or a bit before, which may be under way. */
static int64_t elsewhere(void)
{
    switch (below(3)) {
    case 0: return below(SIZE_MAX_BYTES);
    case 1: return before;
    default: return position - below(position < SHORT_MAX ? position + 1 : SHORT_MAX);
    }
}

/* Calls at the position, most of them one behind the other: only these are read ahead for and
 * written behind. Other calls may have come between, and change what was read ahead. */
static void go_on(int handle)
{
    int writes = below(2), seeks = below(3) == 0;
    for (int steps = 1 + below(STEPS_MAX); steps > 0; steps--, calls++) {
        if (seeks) {
            position = elsewhere();
            need(rlseek(handle, position, SEEK_SET) == position, "rlseek");
        }
        int64_t len = 1 + below(below(2) == 0 ? SHORT_MAX : LEN_MAX);
        if (position + len > SIZE_MAX_BYTES)
            len = SIZE_MAX_BYTES - position;
        before = position;
        if (writes) {
            make(position, len);
            need(rwrite(handle, buffer, len) == len, "rwrite");
            was_written(position, len);
            position += len;
        } else {
            int64_t expected = there(position, len);
            memset(buffer, 0xee, len);
            need(rread(handle, buffer, len) == expected, "rread");
            need(memcmp(buffer, model + position, expected) == 0, "rread gave other bytes");
            position += expected;
        }
        need(rlseek(handle, 0, SEEK_CUR) == position, "the position is another");
        seeks = below(5) == 0;
        if (below(5) == 0)
            writes = !writes;
    }
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
    position = before = 0;
    if (below(2) == 0) {
        /* Room for one part of 256 KiB, or for several. */
        need(rahead(handle, below(2) == 0 ? 1 << 16 : 1 << 20) == 0, "rahead");
        need(rbehind(handle, below(2) == 0 ? 1 << 16 : 1 << 20) == 0, "rbehind");
    }
    for (int i = 0; i < TURNS_PER_LIFE; i++, calls++) {
        switch (below(10)) {
        case 0: cut_or_grow(handle); break;
        case 1: check_size(handle); break;
        case 2: case 3: write_some(handle); break;
        case 4: case 5: read_some(handle); break;
        default: go_on(handle);
        }
        if (!has_begun && calls >= CALLS_FIRST) {
            has_begun = 1;
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
