/* Memory: what memory ranks hold after many messages, and while messages wait that nobody asked for.
 *
 *   memory COUNT UNEXPECTED LEN
 *
 * COUNT messages of 8 bytes go between ranks 0 and 1 in windows, both ways; then rank 0 sends
 * UNEXPECTED messages of LEN bytes, and rank 1 calls MPI for a second without receiving any of them.
 * One JSON line from rank 0: resident bytes of both ranks after a tenth and after all of COUNT, and
 * by how much rank 1 grew while the messages waited. */
#include "common.h"
#include <string.h>
#include <unistd.h>

enum { WINDOW = 64, TAG = 1, TAG_UNEXPECTED = 2, TAG_NEVER = 3, UNEXPECTED_MAX = 1 << 20 };

static int rank;

static int64_t resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1) fail("cannot read /proc/self/statm");
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void windows(long count) {
    static int64_t out[WINDOW], in[WINDOW];
    static MPI_Request requests[2 * WINDOW];
    for (long sent = 0; sent < count; sent += 2 * WINDOW) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(&in[i], 8, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < WINDOW; i++) {
            out[i] = sent + i;
            MPI_Isend(&out[i], 8, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, &requests[WINDOW + i]);
        }
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; i++)
            if (in[i] != sent + i) fail("a wrong message");
    }
}

/* By how many bytes rank 1 grew. */
static int64_t unexpected(int count, int len) {
    unsigned char *buffer = need((size_t)len);
    int64_t before = resident(), until, most = 0;
    int flag;
    memset(buffer, 7, (size_t)len);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request *requests = need((size_t)count * sizeof *requests);
        for (int i = 0; i < count; i++)
            MPI_Isend(buffer, len, MPI_BYTE, 1, TAG_UNEXPECTED, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        free(requests);
        MPI_Recv(&most, 1, MPI_INT64_T, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        until = now_ns() + 1000000000;
        while (now_ns() < until)
            MPI_Iprobe(0, TAG_NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        most = resident() - before;
        for (int i = 0; i < count; i++) {
            MPI_Recv(buffer, len, MPI_BYTE, 0, TAG_UNEXPECTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (buffer[0] != 7 || buffer[len - 1] != 7) fail("wrong bytes");
        }
        MPI_Send(&most, 1, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD);
    }
    free(buffer);
    return most;
}

int main(int argc, char **argv) {
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc != 4 || ranks != 2) fail("usage: memory COUNT UNEXPECTED LEN, on exactly two ranks");
    long count = number(argv[1], 1000, 1L << 40);
    int waiting = (int)number(argv[2], 1, UNEXPECTED_MAX), len = (int)number(argv[3], 1, 1 << 24);
    int64_t own[2], all[4];
    windows(count / 10);
    own[0] = resident();
    windows(count - count / 10);
    own[1] = resident();
    MPI_Gather(own, 2, MPI_INT64_T, all, 2, MPI_INT64_T, 0, MPI_COMM_WORLD);
    int64_t grown = unexpected(waiting, len);
    if (rank == 0)
        printf("{\"early\":[%lld,%lld],\"late\":[%lld,%lld],\"unexpected\":%lld}\n",
               (long long)all[0], (long long)all[2], (long long)all[1], (long long)all[3],
               (long long)grown);
    MPI_Finalize();
    return 0;
}
