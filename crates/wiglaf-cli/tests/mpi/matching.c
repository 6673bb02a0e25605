/* Matched probes of synchronous and of strided messages, persistent sends of displaced types: what
 * pml/cm and mtl/ofi of Open MPI 4.1.4 get wrong, whatever the provider. */
#include "check.h"

static void matched_and_synchronous(int next, int before)
{
    int out = rank, in = -1;
    MPI_Request request;
    MPI_Message message;
    MPI_Issend(&out, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
    MPI_Mprobe(before, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(in == before, "%d", in);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void matched_and_strided(int next, int before)
{
    MPI_Datatype strided;
    MPI_Request request;
    MPI_Message message;
    int out[100], in[199];
    MPI_Type_vector(100, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    for (int i = 0; i < 100; i++) out[i] = rank * 100 + i;
    for (int i = 0; i < 199; i++) in[i] = -1;
    MPI_Isend(out, 100, MPI_INT, next, 2, MPI_COMM_WORLD, &request);
    MPI_Mprobe(before, 2, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, 1, strided, &message, MPI_STATUS_IGNORE);
    for (int i = 0; i < 199; i++)
        CHECK(in[i] == (i % 2 ? -1 : before * 100 + i / 2), "item %d is %d", i, in[i]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&strided);
}

static void persistent_and_displaced(int next, int before)
{
    MPI_Datatype displaced;
    MPI_Request request;
    int one = 1, skipped = 3, out[] = {-1, -2, -3, rank}, in = -1;
    MPI_Type_indexed(1, &one, &skipped, MPI_INT, &displaced);
    MPI_Type_commit(&displaced);
    MPI_Send_init(out, 1, displaced, next, 3, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Recv(&in, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in == before, "%d", in);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Type_free(&displaced);
}


int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const char *only = argc > 1 ? argv[1] : "";
    if (!*only || !strcmp(only, "synchronous")) matched_and_synchronous(next, before);
    if (!*only || !strcmp(only, "strided")) matched_and_strided(next, before);
    if (!*only || !strcmp(only, "displaced")) persistent_and_displaced(next, before);
    return finish();
}
