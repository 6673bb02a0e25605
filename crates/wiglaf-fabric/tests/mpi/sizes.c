/* Messages of every size from 0 to 400 and around each power of two up to 4 MiB, both ways, with
 * every byte and the byte behind the buffer checked. */
#include "check.h"

#define LEN_MAX (4u << 20)

static unsigned char *out, *in;

static void send_one(size_t len, int to)
{
    fill(out, len, (uint32_t)len + (uint32_t)rank);
    MPI_Send(out, (int)len, MPI_BYTE, to, (int)(len % 1000), MPI_COMM_WORLD);
}

static void recv_one(size_t len, int from)
{
    MPI_Status status;
    int count;
    memset(in, 0xee, len + 1);
    MPI_Recv(in, (int)len, MPI_BYTE, from, (int)(len % 1000), MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == (int)len, "%d of %zu bytes", count, len);
    CHECK(status.MPI_SOURCE == from, "source %d", status.MPI_SOURCE);
    CHECK(differs(in, len, (uint32_t)len + (uint32_t)from) < 0, "%zu bytes, at %ld", len,
          differs(in, len, (uint32_t)len + (uint32_t)from));
    CHECK(in[len] == 0xee, "wrote beyond %zu bytes", len);
}

static void exchange(size_t len)
{
    int partner = rank ^ 1;
    if (partner >= size) return;
    if (rank < partner) {
        send_one(len, partner);
        recv_one(len, partner);
    } else {
        recv_one(len, partner);
        send_one(len, partner);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    out = room(LEN_MAX + 2);
    in = room(LEN_MAX + 2);
    for (size_t len = 0; len <= 400; len++) exchange(len);
    for (size_t power = 512; power <= LEN_MAX; power *= 2)
        for (int beside = -1; beside <= 1; beside++)
            if (power + (size_t)beside <= LEN_MAX) exchange(power + (size_t)beside);
    for (size_t len = 1200; len < 1600; len++) exchange(len);
    free(out);
    free(in);
    return finish();
}
