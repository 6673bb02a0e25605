/* Integral transformation and MP2 energy with files that are spread over the
 * disks of several nodes; see ../README.md. */
#include <errno.h>
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "integrals.h"
#include "job.h"
#include "linear.h"
#include "report.h"

static const char HELP[] =
    "usage: transformation [OPTIONS] INPUT\n"
    "\n"
    "MP2 correlation energy of the molecule in INPUT, an NWChem input file, with\n"
    "integrals that are spread over the disks of all ranks' nodes.\n"
    "\n"
    "  --remote WAY       how files of other nodes are reached [none]:\n"
    "                       none               there is one node only\n"
    "                       path:/mnt/%n       a file system; %n: the node's name\n"
    "                       nfs://%n/scratch   libnfs, with its options\n"
    "                       wiglaf[:/scratch]  Wiglaf's file library\n"
    "  --scratch DIR      folder on the own node's disk, with %n too [/scratch]\n"
    "  --library DIR      NWChem's basis sets [/usr/share/nwchem/libraries]\n"
    "  --memory MIB       memory of each rank for sorting [64]\n"
    "  --read KIB         length of a read [1024]\n"
    "  --cutoff HARTREE   integrals below are not kept [1e-12]\n"
    "  --json             report for machines\n";

/* What is wrong with the command is said by rank 0 alone. */
_Noreturn static void usage(int is_error)
{
    if (job.rank == 0)
        fputs(HELP, is_error ? stderr : stdout);
    MPI_Finalize();
    exit(is_error ? 2 : 0);
}

static double number(const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || !(value >= least && value <= most))
        fail("`%s` is no number from %g to %g", text, least, most);
    return value;
}

static void read_options(int argc, char **argv)
{
    enum { REMOTE = 1, SCRATCH, LIBRARY, MEMORY, READ, CUTOFF, JSON, HELP_WANTED };
    static const struct option OPTIONS[] = {
        {"remote", required_argument, NULL, REMOTE},   {"scratch", required_argument, NULL, SCRATCH},
        {"library", required_argument, NULL, LIBRARY}, {"memory", required_argument, NULL, MEMORY},
        {"read", required_argument, NULL, READ},       {"cutoff", required_argument, NULL, CUTOFF},
        {"json", no_argument, NULL, JSON},             {"help", no_argument, NULL, HELP_WANTED},
        {NULL, 0, NULL, 0},
    };
    struct options *o = &job.options;
    *o = (struct options){NULL, "/usr/share/nwchem/libraries", "/scratch", "none", 64 << 20,
                          1 << 20, 1e-12, 0};
    opterr = job.rank == 0;
    for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1;) {
        switch (option) {
        case REMOTE: o->remote = optarg; break;
        case SCRATCH: o->scratch = optarg; break;
        case LIBRARY: o->library = optarg; break;
        case MEMORY: o->memory = (size_t)(number(optarg, 0.01, 1e6) * (1 << 20)); break;
        /* Whole integrals. */
        case READ: o->read_size = (size_t)number(optarg, 1, 1 << 20) * 1024; break;
        case CUTOFF: o->cutoff = number(optarg, 0, 1); break;
        case JSON: o->json = 1; break;
        case HELP_WANTED: usage(0);
        default: usage(1);
        }
    }
    if (optind != argc - 1)
        usage(1);
    o->input = argv[optind];
}

static void find_nodes(void)
{
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    job.node = allocate((size_t)job.ranks, NODE_NAME_MAX);
    char name[NODE_NAME_MAX] = "";
    if (gethostname(name, sizeof name - 1))
        fail("gethostname: %s", strerror(errno));
    MPI_Allgather(name, NODE_NAME_MAX, MPI_CHAR, job.node, NODE_NAME_MAX, MPI_CHAR,
                  MPI_COMM_WORLD);
}

static void write_integrals(struct basis *basis, struct transformation *t)
{
    phase_begin();
    long long count = integrals_write(basis), *counts = allocate((size_t)job.ranks, sizeof count);
    phase_end(INTEGRALS);
    MPI_Allgather(&count, 1, MPI_LONG_LONG, counts, 1, MPI_LONG_LONG, MPI_COMM_WORLD);
    t->integrals = allocate((size_t)job.ranks, sizeof *t->integrals);
    for (int rank = 0; rank < job.ranks; rank++)
        t->integrals[rank] = counts[rank];
    free(counts);
}

/* Both halves, and the energy. */
static double transform(const struct transformation *t)
{
    phase_begin();
    struct sort *sort = sort_first(t);
    phase_end(SORT_1);
    phase_begin();
    half_first(t, sort);
    phase_end(HALF_1);
    phase_begin();
    sort = sort_second(t);
    phase_end(SORT_2);
    phase_begin();
    half_second(t, sort);
    phase_end(HALF_2);
    phase_begin();
    double correlation = mp2(t);
    phase_end(MP2);
    return correlation;
}

int main(int argc, char **argv)
{
    struct molecule molecule;
    struct basis basis;
    struct orbitals orbitals;
    MPI_Init(&argc, &argv);
    find_nodes();
    read_options(argc, argv);
    linear_start();
    molecule_read(job.options.input, &molecule);
    basis_read(&molecule, job.options.library, &basis);
    files_start();

    struct transformation t = {.orbitals = &orbitals};
    write_integrals(&basis, &t);
    phase_begin();
    scf(&molecule, &basis, t.integrals[job.rank], &orbitals);
    phase_end(SCF);
    t.pairs = pair_of(basis.functions, 0);
    t.products = (int64_t)orbitals.occupied * orbitals.virtuals;
    double correlation = transform(&t);
    report(&molecule, &t, correlation);

    files_stop();
    free(t.integrals);
    orbitals_free(&orbitals);
    basis_free(&basis);
    free(job.node);
    MPI_Finalize();
    return 0;
}
