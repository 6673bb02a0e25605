/* Derived types: strided, indexed and structured on one side, plain or other ones on the other. */
#include "check.h"

static void strided(int blocks, int block, int stride, int partner)
{
    int total = blocks * block, span = blocks * stride;
    int *out = room(sizeof(int) * (size_t)span), *in = room(sizeof(int) * (size_t)span);
    int *plain = room(sizeof(int) * (size_t)total);
    MPI_Datatype type;
    MPI_Type_vector(blocks, block, stride, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < span; i++) out[i] = rank * 1000000 + i, in[i] = -1;
    MPI_Sendrecv(out, 1, type, partner, 1, plain, total, MPI_INT, partner, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < total; i++)
        CHECK(plain[i] == partner * 1000000 + i / block * stride + i % block, "item %d", i);
    MPI_Sendrecv(plain, total, MPI_INT, partner, 2, in, 1, type, partner, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < span; i++) {
        int inside = i % stride < block;
        CHECK(in[i] == (inside ? rank * 1000000 + i : -1), "item %d is %d", i, in[i]);
    }
    MPI_Type_free(&type);
    free(out);
    free(in);
    free(plain);
}

struct record {
    char name;
    double value;
    short small[3];
};

static void structured(int count, int partner)
{
    struct record *out = calloc((size_t)count, sizeof *out), *in = calloc((size_t)count, sizeof *in);
    int lens[] = {1, 1, 3};
    MPI_Aint at[] = {offsetof(struct record, name), offsetof(struct record, value),
                     offsetof(struct record, small)};
    MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, packed, type;
    MPI_Type_create_struct(3, lens, at, parts, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct record), &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < count; i++) {
        out[i].name = (char)(i + rank);
        out[i].value = i * 0.5 + rank;
        for (int k = 0; k < 3; k++) out[i].small[k] = (short)(i * 3 + k - rank);
    }
    MPI_Sendrecv(out, count, type, partner, 3, in, count, type, partner, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) {
        CHECK(in[i].name == (char)(i + partner), "record %d", i);
        CHECK(in[i].value == i * 0.5 + partner, "record %d", i);
        for (int k = 0; k < 3; k++)
            CHECK(in[i].small[k] == (short)(i * 3 + k - partner), "record %d", i);
    }
    MPI_Type_free(&type);
    MPI_Type_free(&packed);
    free(out);
    free(in);
}

static void indexed(int partner)
{
    int lens[] = {3, 1, 0, 5}, at[] = {20, 2, 7, 10}, total = 9;
    int out[25], in[9];
    MPI_Datatype type;
    MPI_Type_indexed(4, lens, at, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 25; i++) out[i] = rank * 100 + i;
    MPI_Sendrecv(out, 1, type, partner, 4, in, total, MPI_INT, partner, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int wanted[] = {20, 21, 22, 2, 10, 11, 12, 13, 14};
    for (int i = 0; i < total; i++) CHECK(in[i] == partner * 100 + wanted[i], "item %d", i);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int partner = rank ^ 1;
    if (partner < size) {
        strided(1, 1, 1, partner);
        strided(10, 3, 7, partner);
        strided(1000, 1, 2, partner);
        strided(5000, 20, 33, partner);
        structured(1, partner);
        structured(40000, partner);
        indexed(partner);
    }
    return finish();
}
