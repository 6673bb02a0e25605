#!/usr/bin/env bash
# From `srun` to the first message of an MPI program on two nodes, over Wiglaf and over TCP in turn. As root:
#   wiglaf up --nodes 2 --batch && wiglaf exec -- true && examples/backfill/first-message.sh 15
# Arguments: rounds. WIGLAF_MPI_PATH names an MPICH; without it Debian's is taken. It takes mpicc.mpich and Slurm.
set -euo pipefail
rounds=${1-15}
folder=$(mktemp -d "$PWD/first-message.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >first.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <time.h>
int main(int argc, char **argv)
{
    int rank, word = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        struct timespec now;
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        clock_gettime(CLOCK_REALTIME, &now);
        printf("%ld%09ld\n", (long)now.tv_sec, now.tv_nsec);
    }
    return MPI_Finalize();
}
C
mpicc.mpich -O2 -o first first.c
cat >job.sh <<J
#!/bin/bash
${WIGLAF_MPI_PATH:+export WIGLAF_MPI_PATH=$WIGLAF_MPI_PATH}
for round in \$(seq $rounds); do
    for way in wiglaf tcp; do
        (
            eval "\$(wiglaf env --transport \$way mpich)"
            begin=\$(date +%s%N)
            first=\$(srun -N 2 -n 2 ./first)
            echo \$way \$(((first - begin) / 1000))
        )
    done
done
J
wiglaf exec -w node1 -- sbatch --wait -N 2 -n 2 -o out job.sh
python3 - out <<'P'
import statistics, sys
times = {}
for line in open(sys.argv[1]):
    way, microseconds = line.split()
    times.setdefault(way, []).append(int(microseconds) / 1000)
for way, all_of_it in times.items():
    print(f"{way}: p50 {statistics.median(all_of_it):.0f} ms, {min(all_of_it):.0f} to {max(all_of_it):.0f} ({len(all_of_it)} starts)")
print(f"ratio of medians {statistics.median(times['wiglaf']) / statistics.median(times['tcp']):.2f}")
P
