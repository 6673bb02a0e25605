/* C. C. J. Roothaan, Rev. Mod. Phys. 23, 69 (1951), with P. Pulay's
 * extrapolation (DIIS), J. Comput. Chem. 3, 556 (1982). */
#include "scf.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "integrals.h"
#include "job.h"
#include "linear.h"

enum { ITERATIONS_MAX = 100, HISTORY = 8 };

/* The largest element of FPS - SPF, in an orthonormal basis, in hartree: the
 * energy's error is of its square. */
static const double CONVERGED = 1e-8;
/* Eigenvalues of the overlap below stand for functions that depend on others. */
static const double DEPENDENT = 1e-7;

struct state {
    int n, kept;            /* functions; independent ones */
    double *core, *overlap;
    double *to_orthonormal; /* kept x n */
    double *density, *fock;
    int64_t integrals;
    /* Pulay's, in rings of HISTORY. */
    double *focks, *errors;
    int stored;
};

/* Adds an integral's share to the two-electron part of the Fock matrix, of which
 * only p >= q is kept. Almlof, Faegri and Korsell, J. Comput. Chem. 3, 385
 * (1982), whose factors for equal labels these are. */
static void add_integral(const struct integral *in, const double *density, int n, double *g)
{
    int p = in->p, q = in->q, r = in->r, s = in->s;
    double v = in->value;
    if (p == q)
        v *= 0.5;
    if (r == s)
        v *= 0.5;
    if (p == r && q == s)
        v *= 0.5;
    g[p * n + q] += 4.0 * v * density[r * n + s];
    g[r * n + s] += 4.0 * v * density[p * n + q];
    g[p * n + r] -= v * density[q * n + s];
    g[q * n + s] -= v * density[p * n + r];
    g[p * n + s] -= v * density[q * n + r];
    g[q * n + r] -= v * density[p * n + s];
}

/* The Fock matrix of the density: every rank reads its file, and the parts are summed. */
static void make_fock(struct state *state)
{
    int n = state->n;
    size_t size = (size_t)n * n;
    double *g = allocate(size, sizeof *g);
    struct input *input = input_open(job.rank, "integrals");
    input_range(input, 0, state->integrals * (int64_t)sizeof(struct integral));
    const void *data;
    for (size_t len; (len = input_next(input, &data));) {
        const struct integral *integral = data;
        for (size_t i = 0; i < len / sizeof *integral; i++)
            add_integral(&integral[i], state->density, n, g);
    }
    input_close(input);
    MPI_Allreduce(MPI_IN_PLACE, g, n * n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            state->fock[p * n + q] =
                state->core[p * n + q] + 0.5 * (g[p * n + q] + g[q * n + p]);
    free(g);
}

/* Canonical orthogonalization. */
static void make_orthonormal(struct state *state)
{
    int n = state->n;
    double *vectors = allocate((size_t)n * n, sizeof *vectors);
    double *values = allocate((size_t)n, sizeof *values);
    memcpy(vectors, state->overlap, (size_t)n * n * sizeof *vectors);
    diagonalize(n, vectors, values);
    for (int i = 0; i < n; i++) {
        if (values[i] < DEPENDENT)
            continue;
        for (int p = 0; p < n; p++)
            state->to_orthonormal[state->kept * n + p] = vectors[i * n + p] / sqrt(values[i]);
        state->kept++;
    }
    free(vectors);
    free(values);
}

/* to_orthonormal * matrix * its transpose: kept x kept. */
static void transform(const struct state *state, const double *matrix, double *out)
{
    int n = state->n, kept = state->kept;
    double *half = allocate((size_t)kept * n, sizeof *half);
    multiply(kept, n, n, state->to_orthonormal, 0, matrix, 0, half);
    multiply(kept, kept, n, half, 0, state->to_orthonormal, 1, out);
    free(half);
}

/* Orbitals and their energies of the Fock matrix. */
static void make_orbitals(const struct state *state, const double *fock, struct orbitals *orbitals)
{
    int kept = state->kept;
    double *inner = allocate((size_t)kept * kept, sizeof *inner);
    transform(state, fock, inner);
    diagonalize(kept, inner, orbitals->energies);
    multiply(kept, state->n, kept, inner, 0, state->to_orthonormal, 0, orbitals->coefficients);
    free(inner);
}

/* With two electrons in each occupied orbital. */
static void make_density(struct state *state, const struct orbitals *orbitals)
{
    int n = state->n;
    const double *c = orbitals->coefficients;
    multiply(n, n, orbitals->occupied, c, 1, c, 0, state->density);
    for (int i = 0; i < n * n; i++)
        state->density[i] *= 2.0;
}

/* FPS - SPF in the orthonormal basis; returns its largest element. */
static double find_error(const struct state *state, double *error)
{
    int n = state->n, kept = state->kept;
    double *fp = allocate((size_t)n * n, sizeof *fp), *fps = allocate((size_t)n * n, sizeof *fps);
    multiply(n, n, n, state->fock, 0, state->density, 0, fp);
    multiply(n, n, n, fp, 0, state->overlap, 0, fps);
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            fp[p * n + q] = fps[p * n + q] - fps[q * n + p];
    transform(state, fp, error);
    double largest = 0.0;
    for (int i = 0; i < kept * kept; i++)
        largest = fmax(largest, fabs(error[i]));
    free(fp);
    free(fps);
    return largest;
}

/* Replaces `fock` by the combination of the last ones whose error is least. */
static void extrapolate(const struct state *state, double *fock)
{
    size_t size = (size_t)state->n * state->n, inner = (size_t)state->kept * state->kept;
    int count = state->stored < HISTORY ? state->stored : HISTORY;
    double b[(HISTORY + 1) * (HISTORY + 1)] = {0}, x[HISTORY + 1] = {0};
    int order = count + 1;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++)
            for (size_t k = 0; k < inner; k++)
                b[i * order + j] += state->errors[i * inner + k] * state->errors[j * inner + k];
        b[i * order + count] = b[count * order + i] = -1.0;
    }
    x[count] = -1.0;
    if (solve(order, b, x))
        return;
    memset(fock, 0, size * sizeof *fock);
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < size; k++)
            fock[k] += x[i] * state->focks[i * size + k];
}

static double energy_of(const struct state *state)
{
    double energy = 0.0;
    for (int i = 0; i < state->n * state->n; i++)
        energy += 0.5 * state->density[i] * (state->core[i] + state->fock[i]);
    return energy;
}

/* Rank 0's orbitals go to all: others might differ in their last digits. */
static void next_orbitals(struct state *state, const double *fock, struct orbitals *orbitals)
{
    if (job.rank == 0)
        make_orbitals(state, fock, orbitals);
    MPI_Bcast(orbitals->coefficients, state->kept * state->n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(orbitals->energies, state->kept, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    make_density(state, orbitals);
}

static void iterate(struct state *state, struct orbitals *orbitals)
{
    size_t size = (size_t)state->n * state->n, inner = (size_t)state->kept * state->kept;
    double *fock = allocate(size, sizeof *fock);
    /* The first guess: electrons that do not see each other. */
    next_orbitals(state, state->core, orbitals);
    for (int i = 1;; i++) {
        if (i > ITERATIONS_MAX)
            fail("the SCF does not converge in %d iterations", ITERATIONS_MAX);
        make_fock(state);
        int slot = state->stored++ % HISTORY;
        double error = find_error(state, state->errors + slot * inner);
        memcpy(state->focks + slot * size, state->fock, size * sizeof *fock);
        memcpy(fock, state->fock, size * sizeof *fock);
        orbitals->scf_energy = energy_of(state);
        orbitals->iterations = i;
        MPI_Bcast(&error, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (error < CONVERGED)
            break;
        extrapolate(state, fock);
        next_orbitals(state, fock, orbitals);
    }
    next_orbitals(state, state->fock, orbitals);
    free(fock);
}

void scf(const struct molecule *molecule, struct basis *basis, int64_t integrals,
         struct orbitals *orbitals)
{
    int n = basis->functions, electrons = molecule_electrons(molecule);
    size_t size = (size_t)n * n;
    struct state state = {.n = n, .integrals = integrals};
    double **squares[] = {&state.core, &state.overlap, &state.to_orthonormal, &state.density,
                          &state.fock, &orbitals->coefficients};
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
        *squares[i] = allocate(size, sizeof(double));
    state.focks = allocate(HISTORY * size, sizeof(double));
    state.errors = allocate(HISTORY * size, sizeof(double));
    orbitals->energies = allocate((size_t)n, sizeof(double));
    integrals_one(basis, state.overlap, state.core);
    make_orthonormal(&state);
    if (electrons % 2 || electrons / 2 > state.kept)
        fail("%d electrons are no closed shells of %d orbitals", electrons, state.kept);
    orbitals->functions = n;
    orbitals->occupied = electrons / 2;
    orbitals->virtuals = state.kept - electrons / 2;
    iterate(&state, orbitals);
    orbitals->scf_energy += molecule_repulsion(molecule);
    free(state.core);
    free(state.overlap);
    free(state.to_orthonormal);
    free(state.density);
    free(state.fock);
    free(state.focks);
    free(state.errors);
}

void orbitals_free(struct orbitals *orbitals)
{
    free(orbitals->coefficients);
    free(orbitals->energies);
}
