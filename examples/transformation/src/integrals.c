#include "integrals.h"

#include <cint.h>
#include <cint_funcs.h>
#include <math.h>
#include <stdlib.h>

#include "files.h"
#include "job.h"

typedef CINTIntegralFunction Function;

/* A batch over shells, with what libcint wants to be told each time. */
static void batch(Function *function, struct basis *basis, int *shells, double *out, CINTOpt *opt)
{
    function(out, NULL, shells, basis->atm, basis->atoms, basis->bas, basis->shells, basis->env,
             opt, NULL);
}

static int size_of(const struct basis *basis, int shell)
{
    return basis->first[shell + 1] - basis->first[shell];
}

/* Adds one operator's integrals to a square matrix. */
static void add_one(struct basis *basis, Function *function, double *matrix)
{
    double *out = allocate((size_t)basis->largest * basis->largest, sizeof *out);
    int n = basis->functions;
    for (int i = 0; i < basis->shells; i++)
        for (int j = 0; j < basis->shells; j++) {
            int shells[] = {i, j}, rows = size_of(basis, i), columns = size_of(basis, j);
            batch(function, basis, shells, out, NULL);
            /* libcint has the first index run fastest. */
            for (int q = 0; q < columns; q++)
                for (int p = 0; p < rows; p++)
                    matrix[(basis->first[i] + p) * n + basis->first[j] + q] += out[q * rows + p];
        }
    free(out);
}

void integrals_one(struct basis *basis, double *overlap, double *core)
{
    int s = basis->is_spherical;
    add_one(basis, s ? int1e_ovlp_sph : int1e_ovlp_cart, overlap);
    add_one(basis, s ? int1e_kin_sph : int1e_kin_cart, core);
    add_one(basis, s ? int1e_nuc_sph : int1e_nuc_cart, core);
}

/* What a pass over all shells needs. */
struct pass {
    struct basis *basis;
    Function *function;
    CINTOpt *opt;
    double *out;
    double *bound; /* of each shell pair: |(ij|kl)| <= bound ij * bound kl */
    struct output *file;
    int64_t written;
};

/* The bounds of Schwarz's inequality; Haeser and Ahlrichs, J. Comput. Chem. 10,
 * 104 (1989). */
static void find_bounds(struct pass *pass)
{
    struct basis *basis = pass->basis;
    for (int i = 0; i < basis->shells; i++)
        for (int j = 0; j <= i; j++) {
            int shells[] = {i, j, i, j};
            batch(pass->function, basis, shells, pass->out, pass->opt);
            size_t pairs = (size_t)size_of(basis, i) * size_of(basis, j);
            double largest = 0.0;
            for (size_t k = 0; k < pairs; k++)
                largest = fmax(largest, fabs(pass->out[k * pairs + k]));
            pass->bound[pair_of(i, j)] = sqrt(largest);
        }
}

/* Writes a batch's integrals. Of those that are equal, which are in one batch when
 * shells are, only the one with ordered labels. */
static void write_batch(struct pass *pass, const int *shells)
{
    const struct basis *basis = pass->basis;
    const double *value = pass->out;
    const int *first = basis->first;
    int i = shells[0], j = shells[1], k = shells[2], l = shells[3];
    for (int s = first[l]; s < first[l + 1]; s++)
        for (int r = first[k]; r < first[k + 1]; r++)
            for (int q = first[j]; q < first[j + 1]; q++)
                for (int p = first[i]; p < first[i + 1]; p++, value++) {
                    int is_swapped = pair_of(p, q) < pair_of(r, s);
                    if (fabs(*value) < job.options.cutoff || p < q || r < s ||
                        (is_swapped && i == k && j == l))
                        continue;
                    struct integral integral = {*value, (uint16_t)p, (uint16_t)q, (uint16_t)r,
                                                (uint16_t)s};
                    if (is_swapped)
                        integral = (struct integral){*value, (uint16_t)r, (uint16_t)s,
                                                     (uint16_t)p, (uint16_t)q};
                    output_write(pass->file, &integral, sizeof integral);
                    pass->written++;
                }
}

/* Shell pairs are dealt out in turn: their costs grow slowly with their number. */
static void write_share(struct pass *pass)
{
    const struct basis *basis = pass->basis;
    for (int i = 0; i < basis->shells; i++)
        for (int j = 0; j <= i; j++) {
            int64_t ij = pair_of(i, j);
            if (ij % job.ranks != job.rank)
                continue;
            for (int k = 0; k <= i; k++)
                for (int l = 0; l <= (k == i ? j : k); l++) {
                    if (pass->bound[ij] * pass->bound[pair_of(k, l)] < job.options.cutoff)
                        continue;
                    int shells[] = {i, j, k, l};
                    batch(pass->function, pass->basis, shells, pass->out, pass->opt);
                    write_batch(pass, shells);
                }
        }
}

int64_t integrals_write(struct basis *basis)
{
    size_t largest = (size_t)basis->largest;
    struct pass pass = {.basis = basis};
    pass.function = basis->is_spherical ? int2e_sph : int2e_cart;
    pass.out = allocate(largest * largest * largest * largest, sizeof *pass.out);
    pass.bound = allocate((size_t)pair_of(basis->shells, 0), sizeof *pass.bound);
    int2e_optimizer(&pass.opt, basis->atm, basis->atoms, basis->bas, basis->shells, basis->env);
    find_bounds(&pass);
    pass.file = output_create("integrals");
    write_share(&pass);
    output_close(pass.file);
    CINTdel_optimizer(&pass.opt);
    free(pass.bound);
    free(pass.out);
    return pass.written;
}
