/* Conjugate gradient of Kogut-Susskind (staggered) quarks on a lattice of four dimensions. See ../README.md. */

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "checks.h"
#include "fields.h"
#include "lattice.h"
#include "solve.h"

static const char USAGE[] =
    "usage: staggered [--per-rank L | --lattice XxYxZxT] [OPTION]...\n"
    "  --per-rank L        L^4 sites on each rank [default: 4]\n"
    "  --lattice XxYxZxT   sites in all, whatever the number of ranks\n"
    "  --field random|unit links [default: random]\n"
    "  --mass M            of the quark [default: 0.1]\n"
    "  --solves N          sources that are solved for [default: 5]\n"
    "  --iterations N      at most, for each source [default: 500]\n"
    "  --residual R        ends a source's iterations [default: 1e-10]\n"
    "  --seed N            of all random numbers [default: 1]\n"
    "  --check             compare with answers that are known, in place of measuring\n";

struct options {
    int per_rank, whole[DIMS], solves, is_check;
    double mass;
    struct gauge_field gauge;
    struct limit limit;
};

static int rank;

_Noreturn static void refuse(const char *why)
{
    if (rank == 0)
        fprintf(stderr, "staggered: %s; see staggered --help\n", why);
    MPI_Finalize();
    exit(2);
}

/* Reads "8x8x8x16", or a cube's single number. */
static int is_lattice(const char *text, int whole[DIMS])
{
    char more;
    int read = sscanf(text, "%dx%dx%dx%d%c", &whole[0], &whole[1], &whole[2], &whole[3], &more);
    for (int d = 0; d < DIMS && read == DIMS; d++)
        if (whole[d] < 2 || whole[d] > 1024 || whole[d] % 2)
            return 0;
    return read == DIMS;
}

static double number(const char *text, double least)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || !(value >= least))
        refuse("an option's number is none, or too small");
    return value;
}

static int count(const char *text)
{
    double value = number(text, 1);
    if (value != floor(value) || value > 1e9)
        refuse("an option takes a whole number");
    return (int)value;
}

static struct options parse(int argc, char **argv)
{
    struct options o = {4, {0}, 5, 0, 0.1, {RANDOM, 1, 0}, {500, 1e-10}};
    static const struct option known[] = {
        {"per-rank", 1, 0, 'L'}, {"lattice", 1, 0, 'l'}, {"field", 1, 0, 'f'},
        {"mass", 1, 0, 'm'}, {"solves", 1, 0, 's'}, {"iterations", 1, 0, 'i'},
        {"residual", 1, 0, 'r'}, {"seed", 1, 0, 'S'}, {"check", 0, 0, 'c'},
        {"help", 0, 0, 'h'}, {0}};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "", known, 0)) != -1;)
        switch (c) {
        case 'L': o.per_rank = count(optarg); break;
        case 'l':
            if (!is_lattice(optarg, o.whole))
                refuse("--lattice takes four even extents, as in 8x8x8x16");
            break;
        case 'f':
            o.gauge.gauge = strcmp(optarg, "unit") ? RANDOM : UNIT;
            if (strcmp(optarg, "unit") && strcmp(optarg, "random"))
                refuse("--field is random or unit");
            break;
        case 'm': o.mass = number(optarg, 1e-6); break;
        case 's': o.solves = count(optarg); break;
        case 'i': o.limit.iterations = count(optarg); break;
        case 'r': o.limit.residual = number(optarg, 0); break;
        case 'S': o.gauge.seed = (unsigned long)count(optarg); break;
        case 'c': o.is_check = 1; break;
        case 'h':
            if (rank == 0)
                fputs(USAGE, stdout);
            MPI_Finalize();
            exit(0);
        default: refuse("this is no option, or one that takes a value");
        }
    if (optind < argc)
        refuse("there are no arguments but options");
    if (o.per_rank % 2)
        refuse("--per-rank takes an even number");
    return o;
}

/* L^4 on each rank: the later dimensions are doubled first, as in MILC's benchmarks; another prime than 2 goes to the
 * last. */
static void grow(struct options *o, int ranks)
{
    for (int d = 0; d < DIMS; d++)
        o->whole[d] = o->per_rank;
    int d = DIMS - 1;
    for (; ranks % 2 == 0; ranks /= 2) {
        o->whole[d] *= 2;
        d = d == 0 ? DIMS - 1 : d - 1;
    }
    o->whole[DIMS - 1] *= ranks;
}

static int nodes_of_job(void)
{
    MPI_Comm node;
    int place, nodes;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    nodes = place == 0;
    MPI_Allreduce(MPI_IN_PLACE, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&node);
    return nodes;
}

static void measure(const struct options *o)
{
    struct lattice *l = lattice_new(MPI_COMM_WORLD, o->whole);
    if (!l)
        refuse("this lattice cannot be cut into a box of even extents for each rank");
    set_links(l, &o->gauge);
    int nodes = nodes_of_job(), threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    if (rank == 0) {
        printf("lattice %dx%dx%dx%d, %d ranks (%dx%dx%dx%d) on %d nodes, %d threads each\n",
               o->whole[0], o->whole[1], o->whole[2], o->whole[3], l->ranks, l->grid[0],
               l->grid[1], l->grid[2], l->grid[3], nodes, threads);
        printf("mass %g, %s links\n", o->mass, o->gauge.gauge == UNIT ? "unit" : "random");
    }
    vector *b = field_new(l), *x = field_new(l);
    struct effort all = {0, 0};
    double result = 0, residual = 0;
    for (int k = 0; k < o->solves; k++) {
        set_source(l, b, o->gauge.seed + (unsigned long)k, 1);
        struct effort one = solve(l, x, b, o->mass, o->limit);
        all.iterations += one.iterations;
        all.seconds += one.seconds;
        result += norm2(l, x) / o->solves;
        residual = fmax(residual, true_residual(l, x, b, o->mass));
    }
    double plaquettes = plaquette(l, &o->gauge);
    if (rank == 0) {
        double operations = (double)OPERATIONS * l->sites * all.iterations;
        printf("plaquette %.15e\n", plaquettes);
        printf("norm of the solutions %.15e\n", result);
        printf("largest true residual %.2e\n", residual);
        printf("%d iterations in %.4f s, %.2f us each\n", all.iterations, all.seconds,
               1e6 * all.seconds / all.iterations);
        printf("%.1f Mflop/s a rank, %.1f Mflop/s a node\n", operations / all.seconds / 1e6,
               operations * l->ranks / nodes / all.seconds / 1e6);
    }
    free(b);
    free(x);
    lattice_free(l);
}

int main(int argc, char **argv)
{
    int level, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct options o = parse(argc, argv);
    if (o.whole[0] == 0)
        grow(&o, ranks);
    int failures = 0;
    if (o.is_check)
        failures = run_checks(o.whole, o.mass, o.gauge.seed);
    else
        measure(&o);
    if (o.is_check && rank == 0)
        printf("%s\n", failures ? "some checks failed" : "all checks passed");
    MPI_Finalize();
    return failures ? 1 : 0;
}
