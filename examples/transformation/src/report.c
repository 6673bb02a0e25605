#include "report.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "files.h"
#include "job.h"

static const char *const NAMES[PHASES] = {
    "integrals", "scf", "sort 1", "half 1", "sort 2", "half 2", "mp2",
};

/* Of one phase in one rank. Doubles only: it travels as such. */
struct times {
    double wall_s, cpu_s, wait_s;
    double machine_s; /* until all have done their part */
    double local_bytes, remote_bytes;
};

enum { TIMES = sizeof(struct times) / sizeof(double) };

static struct times times[PHASES];
static double began_wall, began_cpu, began_machine;
static struct files_counts began_counts;

/* Of this process, in user and in kernel mode. */
static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Busy seconds of all cores of this machine, whoever it was: file servers and the
 * daemons of mounts are in no other account. To a hundredth. */
static double machine_seconds(void)
{
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft_irq = 0;
    FILE *file = fopen("/proc/stat", "r");
    if (file) {
        if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &io,
                   &irq, &soft_irq) != 7)
            user = nice = system = irq = soft_irq = 0;
        fclose(file);
    }
    return (user + nice + system + irq + soft_irq) / (double)sysconf(_SC_CLK_TCK);
}

void phase_begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    began_machine = machine_seconds();
    began_wall = MPI_Wtime();
    began_cpu = cpu_seconds();
    began_counts = files_counts;
}

void phase_end(enum phase phase)
{
    double done = MPI_Wtime();
    times[phase].wall_s = done - began_wall;
    times[phase].cpu_s = cpu_seconds() - began_cpu;
    times[phase].local_bytes = (double)(files_counts.local - began_counts.local);
    times[phase].remote_bytes = (double)(files_counts.remote - began_counts.remote);
    MPI_Barrier(MPI_COMM_WORLD);
    times[phase].wait_s = MPI_Wtime() - done;
    times[phase].machine_s = machine_seconds() - began_machine;
}

/* `all` has every rank's phases behind each other. */
static void print_json(const struct molecule *molecule, const struct transformation *t,
                       double correlation, const struct times *all)
{
    const struct orbitals *o = t->orbitals;
    int64_t integrals = 0;
    for (int rank = 0; rank < job.ranks; rank++)
        integrals += t->integrals[rank];
    printf("{\"basis\": \"%s\", \"functions\": %d, \"occupied\": %d, \"virtuals\": %d,\n",
           molecule->basis, o->functions, o->occupied, o->virtuals);
    printf(" \"integrals\": %lld, \"memory_bytes\": %zu, \"read_bytes\": %zu,\n",
           (long long)integrals, job.options.memory, job.options.read_size);
    printf(" \"scf_iterations\": %d, \"scf_hartree\": %.12f, \"mp2_correlation_hartree\": %.12f,\n",
           o->iterations, o->scf_energy, correlation);
    printf(" \"ranks\": [\n");
    for (int rank = 0; rank < job.ranks; rank++) {
        printf("  {\"node\": \"%s\", \"phases\": [\n", job.node[rank]);
        for (int phase = 0; phase < PHASES; phase++) {
            const struct times *x = &all[rank * PHASES + phase];
            printf("    {\"name\": \"%s\", \"wall_s\": %.6f, \"cpu_s\": %.6f, \"wait_s\": %.6f, "
                   "\"machine_cpu_s\": %.2f, \"local_bytes\": %.0f, \"remote_bytes\": %.0f}%s\n",
                   NAMES[phase], x->wall_s, x->cpu_s, x->wait_s, x->machine_s, x->local_bytes,
                   x->remote_bytes, phase + 1 < PHASES ? "," : "");
        }
        printf("  ]}%s\n", rank + 1 < job.ranks ? "," : "");
    }
    printf(" ]}\n");
}

static void print_table(const struct molecule *molecule, const struct transformation *t,
                        double correlation, const struct times *all)
{
    const struct orbitals *o = t->orbitals;
    printf("%s: %d functions, %d occupied and %d virtual orbitals\n", molecule->basis,
           o->functions, o->occupied, o->virtuals);
    printf("SCF energy              %18.10f hartree (%d iterations)\n", o->scf_energy,
           o->iterations);
    printf("MP2 correlation energy  %18.10f hartree\n", correlation);
    printf("MP2 energy              %18.10f hartree\n\n", o->scf_energy + correlation);
    printf("%-10s %4s %-12s %9s %9s %9s %11s %11s\n", "phase", "rank", "node", "wall/s", "CPU/s",
           "wait/s", "local/MB", "remote/MB");
    for (int phase = 0; phase < PHASES; phase++)
        for (int rank = 0; rank < job.ranks; rank++) {
            const struct times *x = &all[rank * PHASES + phase];
            printf("%-10s %4d %-12s %9.3f %9.3f %9.3f %11.3f %11.3f\n", NAMES[phase], rank,
                   job.node[rank], x->wall_s, x->cpu_s, x->wait_s, x->local_bytes / 1e6,
                   x->remote_bytes / 1e6);
        }
}

void report(const struct molecule *molecule, const struct transformation *t, double correlation)
{
    struct times *all = allocate((size_t)job.ranks * PHASES, sizeof *all);
    MPI_Gather(times, PHASES * TIMES, MPI_DOUBLE, all, PHASES * TIMES, MPI_DOUBLE, 0,
               MPI_COMM_WORLD);
    if (job.rank == 0) {
        if (job.options.json)
            print_json(molecule, t, correlation, all);
        else
            print_table(molecule, t, correlation, all);
    }
    free(all);
}
