#include "checks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fields.h"
#include "solve.h"

/* Rounding in the conjugate gradient: it stops here, and what is compared may differ by as much. */
static const struct limit TIGHT = {10000, 1e-15};
static const double TOLERANCE = 1e-12;

static int failures;

/* One outcome; every rank of the lattice calls it. NaN fails. */
static void judge(const struct lattice *l, const char *what, double difference)
{
    int is_right = difference <= TOLERANCE;
    failures += !is_right;
    if (l->rank == 0)
        printf("%s: %s, differs by %.1e\n", is_right ? "right" : "WRONG", what, difference);
}

static double largest(const struct lattice *l, double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, l->comm);
    return value;
}

/* |a - b| / |b| */
static double distance(const struct lattice *l, const vector *a, const vector *b)
{
    double sum = 0;
    for (int i = 0; i < l->sites; i++)
        for (int c = 0; c < 3; c++) {
            double re = a[i].c[c].re - b[i].c[c].re, im = a[i].c[c].im - b[i].c[c].im;
            sum += re * re + im * im;
        }
    return sqrt(sum_over_ranks(l, sum) / norm2(l, b));
}

/* The free quark from the origin to x, by its sum over momenta. With unit links D^2 is a sum over mu of
 * (shift by 2) + (shift by -2) - 2, so
 *   M^-1(x, 0) = 1/V sum over p of e^(ipx) (2m - 2i sum over mu eta_mu(x) sin p_mu) / (4m^2 + 4 sum over mu sin^2 p_mu),
 * on even x the first term, on odd x the second; p_3 is a half-integer multiple of 2 pi / T because
 * time is antiperiodic (Montvay and Muenster, Quantum Fields on a Lattice, section 4.3). */
static double free_quark(const struct lattice *l, const int at[DIMS], double mass)
{
    const int *n = l->whole;
    double sum = 0;
    int k[DIMS];
    for (k[3] = 0; k[3] < n[3]; k[3]++)
        for (k[2] = 0; k[2] < n[2]; k[2]++)
            for (k[1] = 0; k[1] < n[1]; k[1]++)
                for (k[0] = 0; k[0] < n[0]; k[0]++) {
                    double squares = 0, angle = 0, odd = 0, eta = 1;
                    for (int d = 0; d < DIMS; d++) {
                        double p = 2 * M_PI * (k[d] + (d == DIMS - 1 ? 0.5 : 0)) / n[d];
                        squares += sin(p) * sin(p);
                        angle += p * at[d];
                        odd += eta * sin(p);
                        eta *= at[d] & 1 ? -1 : 1;
                    }
                    double below = 4 * mass * mass + 4 * squares;
                    sum += (2 * mass * cos(angle) + 2 * odd * sin(angle)) / below;
                }
    return sum / ((double)n[0] * n[1] * n[2] * n[3]);
}

static void check_free_quark(struct lattice *l, double mass)
{
    struct gauge_field unit = {UNIT, 0, 0};
    set_links(l, &unit);
    vector *b = field_new(l), *x = field_new(l);
    for (int i = 0; i < l->sites; i++)
        if (site_number(l, l->at[i]) == 0)
            b[i].c[0].re = 1;
    solve(l, x, b, mass, TIGHT);
    double difference = 0;
    for (int i = 0; i < l->sites; i++)
        for (int c = 0; c < 3; c++) {
            double expected = c == 0 ? free_quark(l, l->at[i], mass) : 0;
            double found = hypot(x[i].c[c].re - expected, x[i].c[c].im);
            difference = found <= difference ? difference : found;
        }
    judge(l, "free quark, against its sum over momenta", largest(l, difference));
    judge(l, "plaquette of unit links, against 3", fabs(plaquette(l, &unit) - 3));
    free(b);
    free(x);
}

/* Re of u's product with v. */
static double product_of(const struct lattice *l, const vector *u, const vector *v)
{
    double sum = 0;
    for (int i = 0; i < l->sites; i++)
        sum += dot(&u[i], &v[i]);
    return sum_over_ranks(l, sum);
}

/* Solutions with random links, and what must be true of them. */
static void check_random(struct lattice *l, double mass, unsigned long seed)
{
    struct gauge_field g = {RANDOM, seed, 0};
    set_links(l, &g);
    vector *b = field_new(l), *x = field_new(l), *turned = field_new(l), *y = field_new(l);
    set_source(l, b, seed, 1);
    solve(l, x, b, mass, TIGHT);
    judge(l, "residual of the solution, computed anew", true_residual(l, x, b, mass));

    /* D's adjoint is -D. */
    derivative(l, y, b, EVEN);
    derivative(l, y, b, ODD);
    derivative(l, turned, x, EVEN);
    derivative(l, turned, x, ODD);
    double one = product_of(l, x, y), other = product_of(l, turned, b);
    judge(l, "D, against minus its adjoint", fabs(one + other) / sqrt(norm2(l, x) * norm2(l, y)));

    double before = plaquette(l, &g);
    g.is_turned = 1;
    set_links(l, &g);
    turn(l, b, seed);
    solve(l, turned, b, mass, TIGHT);
    turn(l, x, seed);
    judge(l, "solution in another gauge, against the one turned", distance(l, turned, x));
    judge(l, "plaquette in another gauge", fabs(plaquette(l, &g) - before));
    free(b);
    free(x);
    free(y);
    free(turned);
}

/* The first 1, 2, 4, ... ranks solve the same by themselves, and each site's vector is compared. */
static void check_ranks(const int whole[DIMS], double mass, unsigned long seed)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int numbers = 6 * whole[0] * whole[1] * whole[2] * whole[3];
    double *first = allocate(numbers, sizeof(double)), *now = allocate(numbers, sizeof(double));
    for (int count = 1; count <= ranks; count *= 2) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, rank < count ? 0 : MPI_UNDEFINED, rank, &comm);
        if (comm == MPI_COMM_NULL)
            continue;
        struct lattice *l = lattice_new(comm, whole);
        if (!l)
            fail("this lattice cannot be cut for %d ranks", count);
        struct gauge_field g = {RANDOM, seed, 0};
        set_links(l, &g);
        vector *b = field_new(l), *x = field_new(l);
        set_source(l, b, seed, 1);
        solve(l, x, b, mass, TIGHT);
        for (int n = 0; n < numbers; n++)
            now[n] = 0;
        for (int i = 0; i < l->sites; i++)
            for (int c = 0; c < 6; c++)
                now[6 * site_number(l, l->at[i]) + c] = (&x[i].c[0].re)[c];
        MPI_Allreduce(MPI_IN_PLACE, now, numbers, MPI_DOUBLE, MPI_SUM, comm);
        double difference = 0, norm = 0;
        for (int n = 0; n < numbers; n++) {
            difference += (now[n] - first[n]) * (now[n] - first[n]);
            norm += now[n] * now[n];
            if (count == 1)
                first[n] = now[n];
        }
        /* Only rank 0 has the first. */
        MPI_Bcast(&difference, 1, MPI_DOUBLE, 0, comm);
        char what[80];
        snprintf(what, sizeof what, "solution of %d ranks, against that of one", count);
        if (count > 1)
            judge(l, what, sqrt(difference / norm));
        free(b);
        free(x);
        lattice_free(l);
        MPI_Comm_free(&comm);
    }
    free(first);
    free(now);
}

int run_checks(const int whole[DIMS], double mass, unsigned long seed)
{
    struct lattice *l = lattice_new(MPI_COMM_WORLD, whole);
    if (!l)
        fail("this lattice cannot be cut into a box of even extents for each rank");
    check_free_quark(l, mass);
    check_random(l, mass, seed);
    lattice_free(l);
    check_ranks(whole, mass, seed);
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return failures;
}
