#!/usr/bin/env bash
# What: the clocks and the host name that a program in SimGrid's SMPI sees; SimGrid 3.32, Debian 12's libsimgrid-dev 3.32-2+b2.
# Guess: all of them are simulated, or none: the program waits 3 s in sleep() and nanosleep(), which SMPI turns into simulated time.
# Happens: MPI_Wtime, gettimeofday and clock_gettime, in C, have passed 3 s. time(), and std::chrono in C++, have passed 0: they are
#   the clock of the host, though std::this_thread::sleep_for() was simulated. gethostname() tells the host that simulates, while
#   MPI_Get_processor_name tells the simulated one. No warning by smpicc, smpicxx or smpirun.
# Who meets it: programs that measure by std::chrono (most in C++) print times that mean nothing, and look plausible, beside the
#   simulated ones; programs that stop after a wall time by time() run on; those that group ranks by gethostname() see one node.
# Instead: MPI_Wtime, MPI_Comm_split_type, MPI_Get_processor_name; or take the times of smpirun.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libsimgrid-dev=3.32-2+b2 libsimgrid3.32=3.32-2+b2 libboost-context1.74.0 libboost-stacktrace1.74.0 libns3.37 libgsl27 libgslcblas0 \
    libsqlite3-0 libxml2 libgfortran5 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries
# These name each other by where Debian puts them.
sed -i "s#/usr/lib/x86_64-linux-gnu#$libraries#g; s#/usr/include#$T/usr/include#g" usr/bin/smpirun usr/bin/smpicc usr/bin/smpicxx
usr/bin/smpirun -version
cat >c.c <<'P'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char mpi[256], host[256]; int length, rank;
    struct timespec before, after, second = {1, 0}; struct timeval first, last;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_processor_name(mpi, &length); gethostname(host, sizeof host);
    double start = MPI_Wtime(); time_t seconds = time(NULL);
    clock_gettime(CLOCK_MONOTONIC, &before); gettimeofday(&first, NULL);
    sleep(2); nanosleep(&second, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after); gettimeofday(&last, NULL);
    if (rank == 0) {
        printf("MPI_Wtime %.0f s, clock_gettime %ld s, gettimeofday %ld s\n", MPI_Wtime() - start, (long)(after.tv_sec - before.tv_sec), (long)(last.tv_sec - first.tv_sec));
        printf("time() %s\n", time(NULL) - seconds <= 1 ? "0 s" : "3 s");
        printf("MPI_Get_processor_name %s, gethostname %s\n", mpi, strncmp(host, "node", 4) ? "the real host" : "the simulated host");
    }
    MPI_Finalize();
    return 0;
}
P
cat >cxx.cc <<'P'
#include <chrono>
#include <cstdio>
#include <mpi.h>
#include <thread>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank; MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double start = MPI_Wtime(); auto before = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(3));
    double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    if (rank == 0) std::printf("C++: MPI_Wtime %.0f s, std::chrono %s\n", MPI_Wtime() - start, passed < 2 ? "0 s" : "3 s");
    MPI_Finalize();
}
P
usr/bin/smpicc c.c -o c; usr/bin/smpicxx cxx.cc -o cxx
printf '%s\n' '<?xml version="1.0"?>' '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">' '<platform version="4.1">' \
    '<cluster id="c" prefix="node" suffix="" radical="1-2" speed="1Gf" bw="125MBps" lat="5us"/>' '</platform>' >platform.xml
printf '%s\n' node1 node2 >hosts
for program in ./c ./cxx; do
    usr/bin/smpirun -np 2 -platform platform.xml -hostfile hosts --cfg=smpi/host-speed:1Gf --log=root.thresh:error $program
done | tee out
diff - out <<'P'
MPI_Wtime 3 s, clock_gettime 3 s, gettimeofday 3 s
time() 0 s
MPI_Get_processor_name node1, gethostname the real host
C++: MPI_Wtime 3 s, std::chrono 0 s
P
echo "as observed: time(), std::chrono and gethostname() are those of the real host"
