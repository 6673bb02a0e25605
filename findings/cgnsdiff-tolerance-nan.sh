#!/usr/bin/env bash
# What: cgnsdiff -d with a tolerance where one file has NaN; Debian cgns-convert 3.4.0-3.
# Guess: NaN differs from any number, as it does without a tolerance.
# Happens: with any `-tTOLERANCE` a NaN is equal to every number: a field that is NaN everywhere does not differ from the
#   right one, and nothing is said. It is told of only where another value differs, too.
# Who meets it: regression tests of flow solvers, which need a tolerance: the solution that diverged has passed.
# Instead: look for NaN in a text made with `cgns_to_vtk -a`; `cgnsdiff -d` without a tolerance tells of it, too.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q cgns-convert=3.4.0-3 libcgns3.4=3.4.0-3 libcgns-dev=3.4.0-3 libhdf5-103-1=1.10.8+repack1-1 \
    libsz2 libaec0 libcurl4 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >write.c <<'P'
#include <cgnslib.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) { /* file, all values or the sixth, that value; 3 x 2 x 2 points */
    cgsize_t size[9] = {3, 2, 2, 2, 1, 1, 0, 0, 0};
    int file, base, zone, solution, field, i;
    double p[12];
    for (i = 0; i < 12; i++) p[i] = i == 5 || !strcmp(words[2], "all") ? atof(words[3]) : 1 + i;
    cg_open(words[1], CG_MODE_WRITE, &file);
    cg_base_write(file, "Base", 3, 3, &base);
    cg_zone_write(file, base, "Zone", size, Structured, &zone);
    cg_sol_write(file, base, zone, "Solution", Vertex, &solution);
    cg_field_write(file, base, zone, solution, RealDouble, "Pressure", p, &field);
    return cg_close(file) + 0 * count;
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include write.c -o write -L$libraries -l:libcgns.so.3.4 -Wl,--allow-shlib-undefined
export LD_LIBRARY_PATH=$T/$libraries:$T/$libraries/hdf5/serial
./write right.cgns one 6; ./write near.cgns one 6.0001; ./write far.cgns one 6.1; ./write infinite.cgns one inf
./write one-nan.cgns one nan; ./write all-nan.cgns all nan
for file in near far infinite one-nan all-nan; do
    for tolerance in '' -t1e-3; do
        words=$(usr/bin/cgnsdiff -d $tolerance right.cgns $file.cgns | grep -o 'data values differ' || true)
        echo "$file ${tolerance:--}: ${words:-nothing}"
    done
done | tee out
diff - out <<'P'
near -: data values differ
near -t1e-3: nothing
far -: data values differ
far -t1e-3: data values differ
infinite -: data values differ
infinite -t1e-3: data values differ
one-nan -: data values differ
one-nan -t1e-3: nothing
all-nan -: data values differ
all-nan -t1e-3: nothing
P
echo "as observed: with a tolerance NaN is equal to all numbers"
