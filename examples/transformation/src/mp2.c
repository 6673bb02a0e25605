/* C. Moller and M. S. Plesset, Phys. Rev. 46, 618 (1934). For closed shells,
 *
 *   E = sum over i, j, a, b of (ia|jb) [2 (ia|jb) - (ib|ja)] / (e_i + e_j - e_a - e_b),
 *
 * see A. Szabo and N. S. Ostlund, Modern Quantum Chemistry, eq. 6.74. */
#include "mp2.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "job.h"

/* Reads rows (ia|...) of all virtuals a, wherever they are. */
static void read_rows(const struct transformation *t, struct input **inputs, int i, double *rows)
{
    int64_t virtuals = t->orbitals->virtuals, row_bytes = t->products * (int64_t)sizeof(double);
    char *at = (char *)rows;
    for (int owner = 0; owner < job.ranks; owner++) {
        int64_t first = share_begin(t->products, owner), end = share_begin(t->products, owner + 1);
        int64_t from = i * virtuals > first ? i * virtuals : first;
        int64_t to = (i + 1) * virtuals < end ? (i + 1) * virtuals : end;
        if (from >= to)
            continue;
        if (!inputs[owner])
            inputs[owner] = input_open(owner, "whole");
        input_range(inputs[owner], (from - first) * row_bytes, (to - from) * row_bytes);
        const void *data;
        for (size_t len; (len = input_next(inputs[owner], &data)); at += len)
            memcpy(at, data, len);
    }
}

/* The share of one ia: `rows` are those of its i. */
static double energy_of(const struct orbitals *o, int i, int a, const double *rows)
{
    int occupied = o->occupied, virtuals = o->virtuals;
    int64_t products = (int64_t)occupied * virtuals;
    const double *e = o->energies, *above = e + occupied;
    double energy = 0.0;
    for (int j = 0; j < occupied; j++)
        for (int b = 0; b < virtuals; b++) {
            double direct = rows[a * products + j * virtuals + b];
            double exchanged = rows[b * products + j * virtuals + a];
            energy += direct * (2.0 * direct - exchanged) / (e[i] + e[j] - above[a] - above[b]);
        }
    return energy;
}

double mp2(const struct transformation *t)
{
    const struct orbitals *o = t->orbitals;
    int64_t begin = share_begin(t->products, job.rank);
    int64_t end = share_begin(t->products, job.rank + 1);
    double *rows = allocate((size_t)o->virtuals * (size_t)t->products, sizeof *rows);
    struct input **inputs = allocate((size_t)job.ranks, sizeof *inputs);
    double energy = 0.0;
    int present = -1;
    for (int64_t ia = begin; ia < end; ia++) {
        int i = (int)(ia / o->virtuals);
        if (i != present)
            read_rows(t, inputs, i, rows);
        present = i;
        energy += energy_of(o, i, (int)(ia % o->virtuals), rows);
    }
    for (int owner = 0; owner < job.ranks; owner++)
        if (inputs[owner])
            input_close(inputs[owner]);
    free(inputs);
    free(rows);
    MPI_Allreduce(MPI_IN_PLACE, &energy, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return energy;
}
