/* Any number of ranks exchange messages of all sizes in all patterns, write to
 * each other's memory, and check every byte, for so many seconds.
 *
 *   soak SECONDS SEED [FOLDER]
 *
 * prints one line of JSON: rounds, messages and bytes that rank 0 received. Each
 * rank keeps the bytes that it has from malloc in FOLDER/RANK, once a second. */
#include <fcntl.h>
#include <malloc.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 1 << 20, WINDOW = 8192, BURST = 16 };
static unsigned char in[LONGEST], out[LONGEST];
static unsigned char *window;
static int rank, size;
static uint64_t messages, bytes;

static uint64_t mixed(uint64_t x) {
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27, x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void fill(unsigned char *at, int len, uint64_t key) {
    for (int i = 0; i < len; i++) at[i] = key >> (i % 8 * 8) ^ i;
}

static void check(const unsigned char *at, int len, uint64_t key, const char *what) {
    for (int i = 0; i < len; i++)
        if (at[i] != (unsigned char)(key >> (i % 8 * 8) ^ i)) {
            fprintf(stderr, "rank %d: wrong byte %d of %d in %s\n", rank, i, len, what);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    messages++, bytes += len;
}

/* Everybody to the next one in a circle of some step. */
static void shift(uint64_t key, int len) {
    int step = 1 + key % (size - 1), to = (rank + step) % size, from = (rank + size - step) % size;
    fill(out, len, mixed(key + rank));
    MPI_Sendrecv(out, len, MPI_BYTE, to, 1, in, LONGEST, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(in, len, mixed(key + from), "a shift");
}

/* Many at once from anybody to rank 0, taken in the order of their tags backwards. */
static void gather(uint64_t key, int len) {
    MPI_Request requests[BURST];
    if (len > LONGEST / BURST) len = LONGEST / BURST;
    for (int i = 0; i < BURST && rank > 0; i++) {
        fill(out + i * len, len, mixed(key + rank * BURST + i));
        MPI_Isend(out + i * len, len, MPI_BYTE, 0, 10 + i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int from = 1; from < size && rank == 0; from++)
        for (int i = BURST - 1; i >= 0; i--) {
            MPI_Recv(in, len, MPI_BYTE, from, 10 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(in, len, mixed(key + from * BURST + i), "a gathering");
        }
    if (rank > 0) MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE);
}

static void spread(uint64_t key, int len) {
    int root = key % size;
    if (rank == root) fill(in, len, mixed(key));
    MPI_Bcast(in, len, MPI_BYTE, root, MPI_COMM_WORLD);
    check(in, len, mixed(key), "a broadcast");
}

static void put(uint64_t key, MPI_Win win) {
    int len = 1 + key % WINDOW, to = (rank + 1) % size, from = (rank + size - 1) % size;
    fill(out, len, mixed(key + rank));
    MPI_Win_fence(0, win);
    MPI_Put(out, len, MPI_BYTE, to, 0, len, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    check(window, len, mixed(key + from), "a window");
}

/* Written over in one call, so that no reader sees a part of it. */
static void tell_heap(const char *folder) {
    static int file = -1;
    static double last;
    char text[24], path[4096];
    if (file < 0) {
        snprintf(path, sizeof path, "%s/%d", folder, rank);
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    }
    if (MPI_Wtime() - last < 1) return;
    last = MPI_Wtime();
    struct mallinfo2 heap = mallinfo2();
    int len = snprintf(text, sizeof text, "%20zu\n", heap.uordblks + heap.hblkhd);
    if (pwrite(file, text, len, 0) != len) {
        perror(folder);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv) {
    static const int lens[] = {0, 1, 8, 100, 1400, 4096, 20000, 65536, 262144, LONGEST};
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    uint64_t seed = argc > 2 ? strtoull(argv[2], 0, 10) : 1, rounds = 0;
    int go = 1;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    double began = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    while (go && size > 1) {
        uint64_t key = mixed(seed + rounds++);
        int len = lens[key >> 8 & 15 ? (key >> 8) % 8 : 8 + (key >> 12) % 2];
        switch (key >> 32 & 3) {
        case 0: shift(key, len); break;
        case 1: gather(key, len); break;
        case 2: spread(key, len); break;
        case 3: put(key, win); break;
        }
        if (rounds % 16 == 0) {
            go = MPI_Wtime() - began < seconds;
            MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
            if (argc > 3) tell_heap(argv[3]);
        }
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    if (rank == 0)
        printf("{\"rounds\":%llu,\"messages\":%llu,\"bytes\":%llu}\n", (unsigned long long)rounds,
               (unsigned long long)messages, (unsigned long long)bytes);
    return 0;
}
