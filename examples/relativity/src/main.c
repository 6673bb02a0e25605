/* Einstein's equations in vacuum by the formulation of Bona and Masso, on a grid of three dimensions. See ../README.md. */

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "data.h"

static const char USAGE[] =
    "usage: relativity [--per-rank N | --grid XxYxZ] [OPTION]...\n"
    "  --per-rank N        N^3 points on each rank, N to a unit of length [default: 24]\n"
    "  --grid XxYxZ        points in all, X to a unit of length\n"
    "  --points N          points to a unit of length\n"
    "  --test gauge|robust a gauge wave, or noise in flat space [default: gauge]\n"
    "  --wave KX,KY,KZ     waves to a unit of length [default: 1,0,0]\n"
    "  --amplitude A       of the wave or the noise [default: 0.01, 1e-10]\n"
    "  --steps N           of a quarter of the spacing [default: 20]\n"
    "  --every N           print a line after each N steps\n"
    "  --seed N            of the noise [default: 1]\n"
    "  --check             compare with answers that are known, in place of measuring\n";

struct options {
    int per_rank, whole[3], points, steps, every, is_check, is_robust;
    double amplitude;
    unsigned long seed;
    struct wave wave;
};

static int rank;

_Noreturn static void refuse(const char *why)
{
    if (rank == 0)
        fprintf(stderr, "relativity: %s; see relativity --help\n", why);
    MPI_Finalize();
    exit(2);
}

static int count(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || !(value >= 1 && value <= 1e9) || value != floor(value))
        refuse("an option takes a whole number of at least 1");
    return (int)value;
}

static struct options parse(int argc, char **argv)
{
    struct options o = {24, {0}, 0, 20, 0, 0, 0, 0, 1, {0, {1, 0, 0}}};
    static const struct option known[] = {
        {"per-rank", 1, 0, 'n'}, {"grid", 1, 0, 'g'}, {"points", 1, 0, 'p'},
        {"test", 1, 0, 't'}, {"wave", 1, 0, 'w'}, {"amplitude", 1, 0, 'a'},
        {"steps", 1, 0, 's'}, {"every", 1, 0, 'e'}, {"seed", 1, 0, 'S'},
        {"check", 0, 0, 'c'}, {"help", 0, 0, 'h'}, {0}};
    char more;
    int *w = o.whole, *k = o.wave.k;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, "", known, 0)) != -1;)
        switch (c) {
        case 'n': o.per_rank = count(optarg); break;
        case 'g':
            if (sscanf(optarg, "%dx%dx%d%c", &w[0], &w[1], &w[2], &more) != 3 || w[0] < 1 ||
                w[1] < 1 || w[2] < 1 || w[0] > 4096 || w[1] > 4096 || w[2] > 4096)
                refuse("--grid takes three numbers of points, as in 50x3x3");
            break;
        case 'p': o.points = count(optarg); break;
        case 't':
            o.is_robust = !strcmp(optarg, "robust");
            if (!o.is_robust && strcmp(optarg, "gauge"))
                refuse("--test is gauge or robust");
            break;
        case 'w':
            if (sscanf(optarg, "%d,%d,%d%c", &k[0], &k[1], &k[2], &more) != 3 ||
                (!k[0] && !k[1] && !k[2]))
                refuse("--wave takes three whole numbers, as in 1,0,0");
            break;
        case 'a': {
            char *end;
            o.amplitude = strtod(optarg, &end);
            if (*end || end == optarg || !(o.amplitude > 0 && o.amplitude < 1))
                refuse("--amplitude takes a number between 0 and 1");
            break;
        }
        case 's': o.steps = count(optarg); break;
        case 'e': o.every = count(optarg); break;
        case 'S': o.seed = (unsigned long)count(optarg); break;
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
    return o;
}

/* What is not given follows from the rest. */
static void complete(struct options *o, int ranks)
{
    if (!o->points)
        o->points = o->whole[0] ? o->whole[0] : o->per_rank;
    if (!o->amplitude)
        o->amplitude = o->is_robust ? 1e-10 : 0.01;
    o->wave.amplitude = o->amplitude;
    if (!o->whole[0]) {
        /* The dimensions are doubled in turn; another prime than 2 goes to the first. */
        int d = 0;
        for (int e = 0; e < 3; e++)
            o->whole[e] = o->per_rank;
        for (; ranks % 2 == 0; ranks /= 2, d = (d + 1) % 3)
            o->whole[d] *= 2;
        o->whole[0] *= ranks;
    }
    for (int d = 0; d < 3 && !o->is_robust; d++)
        if (o->wave.k[d] * o->whole[d] % o->points)
            refuse("the grid is no whole number of waves: give --grid multiples of --points");
}

static void say(struct grid *g, const struct options *o, int step)
{
    double time = step * g->spacing / 4;
    double error = o->is_robust ? noise_size(g) : wave_error(g, &o->wave, time);
    double constraint = largest_hamiltonian(g);
    if (rank == 0)
        printf("time %.4f, %s %.15e, Hamiltonian constraint %.6e\n", time,
               o->is_robust ? "largest noise" : "largest error", error, constraint);
}

static void measure(const struct options *o)
{
    struct grid *g = grid_new(MPI_COMM_WORLD, o->whole, 1.0 / o->points);
    if (!g)
        refuse("there are more ranks than this grid can be cut for");
    if (o->is_robust)
        set_noise(g, o->amplitude, o->seed);
    else
        set_wave(g, &o->wave);
    if (rank == 0)
        printf("grid %dx%dx%d, %d ranks (%dx%dx%d)\n", o->whole[0], o->whole[1], o->whole[2],
               g->ranks, g->cut[0], g->cut[1], g->cut[2]);
    double seconds = 0;
    for (int s = 1; s <= o->steps; s++) {
        double begin = MPI_Wtime();
        evolve(g, g->spacing / 4);
        seconds += MPI_Wtime() - begin;
        if ((o->every && s % o->every == 0) || s == o->steps)
            say(g, o, s);
    }
    uint64_t all = digest(g);
    double points = (double)o->whole[0] * o->whole[1] * o->whole[2];
    seconds = largest(g, seconds);
    if (rank == 0) {
        printf("all bits %016llx\n", (unsigned long long)all);
        printf("%d steps in %.4f s, %.1f thousand points a second and rank\n", o->steps, seconds,
               points * o->steps / seconds / g->ranks / 1e3);
    }
    grid_free(g);
}

int main(int argc, char **argv)
{
    int ranks, failures = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct options o = parse(argc, argv);
    if (o.is_check) {
        failures = run_checks();
        if (rank == 0)
            printf("%s\n", failures ? "some checks failed" : "all checks passed");
    } else {
        complete(&o, ranks);
        measure(&o);
    }
    MPI_Finalize();
    return failures ? 1 : 0;
}
