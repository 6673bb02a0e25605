/* Probe, Iprobe, Mprobe, Improbe and Mrecv, for short and long messages. */
#include "check.h"

static const int lens[] = {0, 5, 1000, 5000, 200000, 3000000};
#define LENS (int)(sizeof lens / sizeof *lens)

static void sender(void)
{
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < LENS; i++) {
            unsigned char *buf = room((size_t)lens[i]);
            fill(buf, (size_t)lens[i], (uint32_t)(rank * 100 + i));
            MPI_Send(buf, lens[i], MPI_BYTE, 0, i, MPI_COMM_WORLD);
            free(buf);
        }
}

/* Receives what was probed, or the claimed message, and checks it. */
static void take(MPI_Status *seen, MPI_Message *claimed)
{
    int len, got;
    MPI_Status status;
    MPI_Get_count(seen, MPI_BYTE, &len);
    CHECK(len == lens[seen->MPI_TAG], "%d bytes with tag %d", len, seen->MPI_TAG);
    unsigned char *buf = room((size_t)len);
    if (claimed) {
        MPI_Mrecv(buf, len, MPI_BYTE, claimed, &status);
        CHECK(*claimed == MPI_MESSAGE_NULL, "the message is still there");
    } else {
        MPI_Recv(buf, len, MPI_BYTE, seen->MPI_SOURCE, seen->MPI_TAG, MPI_COMM_WORLD, &status);
    }
    MPI_Get_count(&status, MPI_BYTE, &got);
    CHECK(got == len, "%d of %d bytes", got, len);
    uint32_t seed = (uint32_t)(seen->MPI_SOURCE * 100 + seen->MPI_TAG);
    CHECK(differs(buf, (size_t)len, seed) < 0, "contents of %d bytes", len);
    free(buf);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (rank != 0) {
        sender();
        return finish();
    }
    MPI_Status status;
    MPI_Message message;
    int flag, per_round = LENS * (size - 1);
    MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag, "a message that nobody sent");
    for (int n = 0; n < per_round; n++) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        take(&status, NULL);
    }
    for (int n = 0; n < per_round; n++) {
        do
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        while (!flag);
        take(&status, NULL);
    }
    for (int n = 0; n < per_round; n++) {
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        take(&status, &message);
    }
    for (int n = 0; n < per_round; n++) {
        do
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        while (!flag);
        take(&status, &message);
    }
    return finish();
}
