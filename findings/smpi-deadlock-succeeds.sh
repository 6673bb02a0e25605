#!/usr/bin/env bash
# What: an MPI program in SimGrid's SMPI whose ranks wait for each other for ever, or call MPI_Abort(MPI_COMM_WORLD, 7); SimGrid 3.32,
#   Debian 12's libsimgrid-dev 3.32-2+b2.
# Guess: smpirun fails, as mpirun does with the status of MPI_Abort, and tells no time.
# Happens: it exits with 0 and prints a simulated time, up to where ranks stopped. The log has a line about it, which
#   --log=root.thresh:error leaves out for MPI_Abort. A rank that calls exit(5) does make smpirun exit with 5.
# Who meets it: scripts that simulate many sizes and take the time of each that succeeded: those that failed look the fastest.
# Instead: look for 'Deadlock detected', 'MPI_Abort was called' and 'Stalling SMPI instance' in standard error, at the default log level.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libsimgrid-dev=3.32-2+b2 libsimgrid3.32=3.32-2+b2 libboost-context1.74.0 libboost-stacktrace1.74.0 libns3.37 libgsl27 libgslcblas0 \
    libsqlite3-0 libxml2 libgfortran5 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries
# These name each other by where Debian puts them.
sed -i "s#/usr/lib/x86_64-linux-gnu#$libraries#g; s#/usr/include#$T/usr/include#g" usr/bin/smpirun usr/bin/smpicc
usr/bin/smpirun -version
cat >program.c <<'P'
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, got;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argv[1][0] == 'w') MPI_Recv(&got, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (argv[1][0] == 'a' && rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
    if (argv[1][0] == 'e' && rank == 1) exit(5);
    MPI_Finalize();
    return 0;
}
P
usr/bin/smpicc program.c -o program
printf '%s\n' '<?xml version="1.0"?>' '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">' '<platform version="4.1">' \
    '<cluster id="c" prefix="node" suffix="" radical="1-2" speed="1Gf" bw="125MBps" lat="5us"/>' '</platform>' >platform.xml
printf '%s\n' node1 node2 >hosts
for how in finalize wait abort exit; do
    result=0
    usr/bin/smpirun -np 2 -platform platform.xml -hostfile hosts --cfg=smpi/display-timing:yes --cfg=smpi/host-speed:1Gf \
        ./program "$how" >out 2>&1 || result=$?
    echo "$how: status $result, simulated times $(grep -c 'Simulated time' out || true)," \
        "signs $(grep -cE 'Deadlock detected|MPI_Abort was called|Stalling SMPI instance' out || true)"
done | tee said
diff - said <<'P'
finalize: status 0, simulated times 1, signs 0
wait: status 0, simulated times 1, signs 2
abort: status 0, simulated times 1, signs 2
exit: status 5, simulated times 1, signs 1
P
echo "as observed: a deadlock and MPI_Abort succeed in SMPI, with a time"
