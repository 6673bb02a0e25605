#include "checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data.h"

enum { RESOLUTIONS = 3 };

static int failures, rank;

static void judge(int is_right, const char *what, const char *found)
{
    failures += !is_right;
    if (rank == 0)
        printf("%s: %s: %s\n", is_right ? "right" : "WRONG", what, found);
}

static struct grid *grid_of(MPI_Comm comm, const int whole[3], double spacing)
{
    struct grid *g = grid_new(comm, whole, spacing);
    if (!g) {
        fprintf(stderr, "relativity: there are too many ranks for the checks' grids\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return g;
}

/* Errors of a scheme of second order fall by four where the spacing is halved. */
static void judge_order(const char *what, const double error[RESOLUTIONS])
{
    double one = log2(error[0] / error[1]), two = log2(error[1] / error[2]);
    char found[120];
    snprintf(found, sizeof found, "errors %.1e, %.1e, %.1e, orders %.2f and %.2f", error[0],
             error[1], error[2], one, two);
    judge(fabs(one - 2) < 0.3 && fabs(two - 2) < 0.15, what, found);
}

/* The conservation laws say what the equations of Arnowitt, Deser and Misner do, in all components. */
static void check_equations(void)
{
    double error[RESOLUTIONS];
    for (int k = 0; k < RESOLUTIONS; k++) {
        int n = 16 << k, whole[3] = {n, n, n};
        struct grid *g = grid_of(MPI_COMM_WORLD, whole, 1.0 / n);
        set_curved(g);
        error[k] = largest_disagreement(g);
        grid_free(g);
    }
    judge_order("curved space, against the equations of ADM", error);
}

/* Steps of a quarter of the spacing, as the tests prescribe. */
static void run(struct grid *g, int steps)
{
    for (int s = 0; s < steps; s++)
        evolve(g, g->spacing / 4);
}

/* A gauge wave after a quarter of a unit of time, in three resolutions. */
static void check_wave(struct wave w, int coarse)
{
    double error[RESOLUTIONS];
    for (int k = 0; k < RESOLUTIONS; k++) {
        int n = coarse << k, whole[3];
        for (int d = 0; d < 3; d++)
            whole[d] = w.k[d] ? n : 3;
        struct grid *g = grid_of(MPI_COMM_WORLD, whole, 1.0 / n);
        set_wave(g, &w);
        run(g, n);
        error[k] = wave_error(g, &w, 0.25);
        grid_free(g);
    }
    char what[80];
    snprintf(what, sizeof what, "gauge wave of amplitude %g along (%d, %d, %d)", w.amplitude,
             w.k[0], w.k[1], w.k[2]);
    judge_order(what, error);
}

/* Robust stability: noise in every variable of flat space stays noise. Modes that grow do so faster on the finer
 * grid. */
static void check_noise(void)
{
    for (int fine = 1; fine <= 2; fine++) {
        int n = 50 * fine, whole[3] = {n, 3, 3}, crossings = 4;
        struct grid *g = grid_of(MPI_COMM_WORLD, whole, 1.0 / n);
        set_noise(g, 1e-10 / (fine * fine), 1);
        double before = largest_hamiltonian(g), first = noise_size(g);
        run(g, 4 * n * crossings);
        double after = largest_hamiltonian(g), last = noise_size(g);
        char what[80], found[120];
        snprintf(what, sizeof what, "noise on %d points after %d crossings", n, crossings);
        snprintf(found, sizeof found, "%.1e was %.1e, Hamiltonian constraint %.1e was %.1e", last,
                 first, after, before);
        judge(last < 10 * first && after < 2 * before, what, found);
        grid_free(g);
    }
}

/* The first 1, 2, 3, ... ranks evolve the same by themselves, and every bit must be the same. */
static void check_ranks(void)
{
    int ranks, whole[3] = {9, 10, 11};
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint64_t one = 0;
    for (int count = 1; count <= ranks; count++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, rank < count ? 0 : MPI_UNDEFINED, rank, &comm);
        if (comm == MPI_COMM_NULL)
            continue;
        struct grid *g = grid_of(comm, whole, 0.1);
        set_noise(g, 1e-2, 1);
        run(g, 4);
        uint64_t all = digest(g);
        if (count == 1)
            one = all;
        /* Only rank 0 was alone. */
        int is_right = all == one;
        MPI_Bcast(&is_right, 1, MPI_INT, 0, comm);
        char what[80], found[80];
        snprintf(what, sizeof what, "all bits of %d ranks, against those of one", count);
        snprintf(found, sizeof found, "%016llx", (unsigned long long)all);
        if (count > 1)
            judge(is_right, what, found);
        grid_free(g);
        MPI_Comm_free(&comm);
    }
}

int run_checks(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check_equations();
    check_wave((struct wave){0.01, {1, 0, 0}}, 50);
    check_wave((struct wave){0.1, {1, 1, 0}}, 16);
    check_wave((struct wave){0.1, {1, -1, 1}}, 9);
    check_noise();
    check_ranks();
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return failures;
}
