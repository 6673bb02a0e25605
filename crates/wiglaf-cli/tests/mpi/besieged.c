/* Two ranks exchange messages of all lengths and write to each other's memory,
 * and check every byte, until a file says stop. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONGEST = 300000, WINDOW = 4096 };
static unsigned char in[LONGEST], out[LONGEST];
static unsigned char *window;

static unsigned char byte(int round, int rank, int at) { return round * 31 + rank * 101 + at * 7; }

static void check(int right, const char *what, int round) {
    if (right) return;
    fprintf(stderr, "wrong: %s in round %d\n", what, round);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void exchange(int round, int rank, int len) {
    MPI_Status status;
    int got;
    for (int i = 0; i < len; i++) out[i] = byte(round, rank, i);
    MPI_Sendrecv(out, len, MPI_BYTE, 1 - rank, round % 1000, in, LONGEST, MPI_BYTE, 1 - rank,
                 round % 1000, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    check(got == len, "length", round);
    for (int i = 0; i < len; i++) check(in[i] == byte(round, 1 - rank, i), "message", round);
}

static void write_there(int round, int rank, MPI_Win win) {
    for (int i = 0; i < WINDOW; i++) out[i] = byte(round, rank, i);
    MPI_Win_fence(0, win);
    MPI_Put(out, WINDOW, MPI_BYTE, 1 - rank, 0, WINDOW, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < WINDOW; i++) check(window[i] == byte(round, 1 - rank, i), "window", round);
}

int main(void) {
    static const int lens[] = {0, 1, 8, 200, 1400, 5000, 60000, LONGEST};
    int rank, stop = 0, round = 0;
    MPI_Win win;
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(WINDOW, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    while (!stop) {
        for (int i = 0; i < 8; i++) exchange(round, rank, lens[i]);
        write_there(round, rank, win);
        if (rank == 0) stop = access("stop", F_OK) == 0;
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        round++;
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    if (rank == 0) printf("passed\n");
    return 0;
}
