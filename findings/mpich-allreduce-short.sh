#!/usr/bin/env bash
# What: MPI_Allreduce of 64 bytes and MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE; PyPI mpich 5.0.2 (and 4.0.3), four ranks over TCP.
# Guess: up to that many bytes (2048 unless set) the algorithm for short messages is taken, recursive doubling: on four ranks
#   each sends twice.
# Happens: from 16 bytes on the one for long messages is taken, reduce-scatter and allgather, with twice the messages,
#   whatever the variable says: only non-blocking and group reductions ask for it.
# Who meets it: every program whose small sums cross a network, and who sets the variable to cure it.
# Instead: MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=recursive_doubling where long vectors are rare, or a file of one's own for
#   MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE.
set -euo pipefail
if [ $# = 0 ]; then
    [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null || { echo "skipped: it takes root and network namespaces"; exit 0; }
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    python3 -m venv --without-pip "$T/v"
    python3 -m pip -q --python "$T/v/bin/python" install --no-deps mpich==5.0.2
    unshare -n bash "$0" "$T"
    exit
fi
T=$1
ip link set lo up
cat >"$T/sums.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static long packets(void) {
    char line[512];
    long count = -1;
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, " lo: %*d %ld", &count);
    if (file) fclose(file);
    return count;
}
int main(int argc, char **argv) {
    double in[8] = {1}, out[8];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 100; i++) MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    long before = packets();
    for (int i = 0; i < 1000; i++) MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%ld\n", packets() - before);
    MPI_Finalize();
}
C
"$T/v/bin/mpicc" -o "$T/sums" "$T/sums.c"
run() { # environment
    env "$@" MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=tcp FI_TCP_IFACE=lo \
        timeout -k 5 60 "$T/v/bin/mpiexec" -n 4 "$T/sums" </dev/null 2>"$T/err" | tail -n 1
}
own=$(run A=) longer=$(run MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE=65536)
short=$(run MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=recursive_doubling)
long=$(run MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=reduce_scatter_allgather)
echo "packets of 1000 sums of 64 bytes: as it is $own, with SHORT_MSG_SIZE=65536 $longer,"
echo "  recursive doubling $short, reduce-scatter and allgather $long"
# TCP's acknowledgements make the counts differ by a fifth from run to run.
twice() { [ $((10 * $1)) -gt $((14 * short)) ]; }
[ "$short" -gt 1000 ] && twice "$own" && twice "$longer" && twice "$long" || exit 1
echo "as observed: sums of 64 bytes take the algorithm for long messages"
