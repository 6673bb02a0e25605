#!/usr/bin/env bash
# What: boost::mpi::scatterv with displacements, for types that are serialized; Debian libboost-mpi-dev 1.74.0.3 (Boost 1.74.0+ds1-21),
#   Open MPI 4.1.4-3+b1.
# Guess: each process gets the elements at its displacement: 'the i-th entry specifies the displacement (relative to in_values) from
#   which to take the outgoing data to process i'. So it is for numbers, and gatherv puts strings at their displacements.
# Happens: for strings, vectors and classes with serialize() the displacements are dropped: the processes get what stands at the
#   start, one after another. No error, and the number of elements is right. A class that becomes an MPI type, by
#   BOOST_IS_MPI_DATATYPE, is right.
# Who meets it: lists of names, particles or cells with gaps between the parts of the processes, or in another order than the ranks.
# Instead: copy the parts one after another and leave the displacements out; or gather and send parts as vectors, by scatter.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install libboost-mpi-dev=1.74.0.3 libboost1.74-dev=1.74.0+ds1-21 openmpi-bin=4.1.4-3+b1 \
    libopenmpi-dev=4.1.4-3+b1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
L=usr/lib/x86_64-linux-gnu
[ ! -d "$L/openmpi/lib" ] || export OPAL_PREFIX=$T/usr
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/$L LIBRARY_PATH=$T/$L TMPDIR=$T
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
cat >program.cpp <<'P'
#include <boost/mpi.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <iostream>
#include <string>
#include <vector>
namespace mpi = boost::mpi;
struct Cell {
    int id = -1;
    template <class Archive> void serialize(Archive &archive, unsigned) { archive & id; }
};
struct Typed : Cell {};
BOOST_IS_MPI_DATATYPE(Typed)
std::string text(int x) { return std::to_string(x); }
std::string text(const std::string &x) { return x; }
std::string text(const std::vector<int> &x) { return std::to_string(x.at(0)); }
std::string text(const Cell &x) { return std::to_string(x.id); }
template <class Type, class Make> void show(const mpi::communicator &world, const char *name, Make make) {
    std::vector<int> sizes, places;
    for (int rank = 0; rank < world.size(); rank++) { sizes.push_back(2); places.push_back(10 * rank); }
    std::vector<Type> all, mine(2);
    for (int i = 0; i < 10 * world.size(); i++) all.push_back(make(i));
    if (world.rank() == 0) mpi::scatterv(world, all, sizes, places, mine.data(), 2, 0);
    else mpi::scatterv(world, mine.data(), 2, 0);
    std::vector<std::string> words;
    mpi::gather(world, text(mine[0]) + " " + text(mine[1]), words, 0);
    if (world.rank()) return;
    std::cout << name << ":";
    for (auto &word : words) std::cout << " [" << word << "]";
    std::cout << std::endl;
}
int main(int argc, char **argv) {
    mpi::environment environment(argc, argv);
    mpi::communicator world;
    show<int>(world, "numbers", [](int i) { return i; });
    show<Typed>(world, "class with an MPI type", [](int i) { Typed cell; cell.id = i; return cell; });
    show<Cell>(world, "class that is serialized", [](int i) { Cell cell; cell.id = i; return cell; });
    show<std::string>(world, "strings", [](int i) { return std::to_string(i); });
    show<std::vector<int>>(world, "vectors", [](int i) { return std::vector<int>(1, i); });
    std::vector<std::string> mine(2, std::string(1, 'a' + world.rank())), all(5 * world.size(), "-");
    std::vector<int> sizes(world.size(), 2), places;
    for (int rank = 0; rank < world.size(); rank++) places.push_back(5 * rank);
    if (world.rank() == 0) mpi::gatherv(world, mine, all.data(), sizes, places, 0);
    else mpi::gatherv(world, mine, 0);
    if (world.rank() == 0) {
        std::cout << "gatherv of strings:";
        for (auto &word : all) std::cout << " " << word;
        std::cout << std::endl;
    }
}
P
mpicxx.openmpi -Iusr/include program.cpp -o program -L$L -lboost_mpi -lboost_serialization
timeout 60 mpirun.openmpi --oversubscribe -n 3 ./program </dev/null | tee out
diff - out <<'P'
numbers: [0 1] [10 11] [20 21]
class with an MPI type: [0 1] [10 11] [20 21]
class that is serialized: [0 1] [2 3] [4 5]
strings: [0 1] [2 3] [4 5]
vectors: [0 1] [2 3] [4 5]
gatherv of strings: a a - - - b b - - - c c - - -
P
echo "as observed: Boost's scatterv drops displacements for what is serialized"
