/* Incast: all other ranks send to rank 0 for a while, as fast as it takes.
 *
 *   incast SETTLE_MS MEASURE_MS LEN DEPTH
 *
 * One JSON line from rank 0: the bytes that came from each sender in the measured time, and what the
 * kernel and the transport counted on every node. Each sender keeps DEPTH messages under way, and
 * rank 0 as many receives for each sender. The first byte of every message is checked. */
#include "common.h"
#include "counters.h"
#include <string.h>

enum { TAG_DATA = 1, TAG_STOP = 2, DEPTH_MAX = 64, SENDERS_MAX = 255 };

static int rank, ranks, len, depth;

static void send_until_told(void) {
    static MPI_Request requests[DEPTH_MAX];
    unsigned char *out = need((size_t)len);
    int told = 0, place;
    MPI_Request stop;
    memset(out, rank, (size_t)len);
    MPI_Irecv(NULL, 0, MPI_BYTE, 0, TAG_STOP, MPI_COMM_WORLD, &stop);
    for (int i = 0; i < depth; i++)
        MPI_Isend(out, len, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
    while (!told) {
        MPI_Waitany(depth, requests, &place, MPI_STATUS_IGNORE);
        MPI_Isend(out, len, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[place]);
        MPI_Test(&stop, &told, MPI_STATUS_IGNORE);
    }
    MPI_Waitall(depth, requests, MPI_STATUSES_IGNORE);
    /* An empty message for each receive that is still posted: rank 0 knows then that nothing more
     * comes. */
    for (int i = 0; i < depth; i++) MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    free(out);
}

static void receive(int64_t settle_ns, int64_t measure_ns) {
    static int64_t bytes[SENDERS_MAX], before[SENDERS_MAX];
    int senders = ranks - 1, slots = senders * depth, posted = slots;
    MPI_Request *requests = need((size_t)slots * sizeof *requests);
    unsigned char *in = need((size_t)slots * (size_t)len);
    int64_t started = now_ns(), from = 0, to = 0;
    for (int slot = 0; slot < slots; slot++)
        MPI_Irecv(in + (size_t)slot * (size_t)len, len, MPI_BYTE, 1 + slot / depth, TAG_DATA,
                  MPI_COMM_WORLD, &requests[slot]);
    while (posted) {
        int slot, got;
        MPI_Status status;
        MPI_Waitany(slots, requests, &slot, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        int sender = slot / depth;
        int64_t now = now_ns();
        if (!from && now - started >= settle_ns) {
            from = now;
            memcpy(before, bytes, sizeof before);
        }
        if (from && !to && now - from >= measure_ns) {
            to = now;
            for (int i = 0; i < senders; i++) before[i] = bytes[i] - before[i];
            for (int i = 0; i < senders; i++)
                MPI_Send(NULL, 0, MPI_BYTE, 1 + i, TAG_STOP, MPI_COMM_WORLD);
        }
        if (!got) {
            posted--;
            continue;
        }
        unsigned char *message = in + (size_t)slot * (size_t)len;
        if (message[0] != sender + 1 || message[got - 1] != sender + 1) fail("wrong bytes");
        bytes[sender] += got;
        MPI_Irecv(message, len, MPI_BYTE, 1 + sender, TAG_DATA, MPI_COMM_WORLD, &requests[slot]);
    }
    printf("{\"elapsed_ns\":%lld,\"bytes\":[", (long long)(to - from));
    for (int i = 0; i < senders; i++) printf("%s%lld", i ? "," : "", (long long)before[i]);
    printf("],");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc != 5 || ranks < 2 || ranks > SENDERS_MAX)
        fail("usage: incast SETTLE_MS MEASURE_MS LEN DEPTH, on two ranks or more");
    int64_t settle_ns = number(argv[1], 1, 100000) * 1000000;
    int64_t measure_ns = number(argv[2], 1, 100000) * 1000000;
    len = (int)number(argv[3], 1, 1 << 24);
    depth = (int)number(argv[4], 1, DEPTH_MAX);
    count_from_here();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) receive(settle_ns, measure_ns); else send_until_told();
    print_counters(rank, ranks);
    if (rank == 0) puts("}");
    MPI_Finalize();
    return 0;
}
