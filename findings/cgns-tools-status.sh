#!/usr/bin/env bash
# What: the exit status of cgnsdiff and cgnscheck; Debian cgns-convert 3.4.0-3.
# Guess: cgnsdiff is 1 where two files differ, as diff and h5diff, and cgnscheck is not 0 where it finds an ERROR.
# Happens: both are 0 after they have told of differences and errors. Only a file that cannot be opened is a status of 1.
# Who meets it: regression tests with `cgnsdiff -d a.cgns b.cgns && echo passed`, and `cgnscheck mesh.cgns && solver`: the
#   test never fails, and the solver starts with a boundary outside the zone.
# Instead: `[ -z "$(cgnsdiff -d a.cgns b.cgns)" ]`; `cgnscheck mesh.cgns | grep -q '^ERROR'`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q cgns-convert=3.4.0-3 libcgns3.4=3.4.0-3 libcgns-dev=3.4.0-3 libhdf5-103-1=1.10.8+repack1-1 \
    libsz2 libaec0 libcurl4 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >write.c <<'P'
#include <cgnslib.h>
#include <stdlib.h>
int main(int count, char **words) { /* file, a value of the solution, last plane of the wall; 3 x 2 x 2 points */
    cgsize_t size[9] = {3, 2, 2, 2, 1, 1, 0, 0, 0}, wall[6] = {1, 1, 1, 3, 2, atoi(words[3])};
    const char *names[] = {"CoordinateX", "CoordinateY", "CoordinateZ"};
    int file, base, zone, other, d, i;
    double x[3][12], p[12];
    for (i = 0; i < 12; i++) { x[0][i] = i % 3; x[1][i] = i / 3 % 2; x[2][i] = i / 6; p[i] = 1 + i; }
    p[5] = atof(words[2]);
    cg_open(words[1], CG_MODE_WRITE, &file);
    cg_base_write(file, "Base", 3, 3, &base);
    cg_zone_write(file, base, "Zone", size, Structured, &zone);
    for (d = 0; d < 3; d++) cg_coord_write(file, base, zone, RealDouble, names[d], x[d], &other);
    cg_boco_write(file, base, zone, "wall", BCWall, PointRange, 2, wall, &other);
    cg_sol_write(file, base, zone, "Solution", Vertex, &d);
    cg_field_write(file, base, zone, d, RealDouble, "Pressure", p, &other);
    return cg_close(file) + 0 * count;
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include write.c -o write -L$libraries -l:libcgns.so.3.4 -Wl,--allow-shlib-undefined
export LD_LIBRARY_PATH=$T/$libraries:$T/$libraries/hdf5/serial
./write a.cgns 6 1; cp a.cgns copy.cgns; ./write b.cgns 66 1; ./write c.cgns 6 9
run() { # command
    status=0; "$@" >words 2>&1 || status=$?
    echo "$*: status $status: $(grep -E 'differ|^ERROR|not found' words | xargs)"
}
PATH=$T/usr/bin:$PATH
{
    run cgnsdiff -d a.cgns copy.cgns
    run cgnsdiff -d a.cgns b.cgns
    run cgnsdiff -d a.cgns nosuch.cgns
    for file in a c nosuch; do run cgnscheck $file.cgns; done
} | tee out
diff - out <<'P'
cgnsdiff -d a.cgns copy.cgns: status 0: 
cgnsdiff -d a.cgns b.cgns: status 0: /Base/Zone/Solution/Pressure <> /Base/Zone/Solution/Pressure : data values differ
cgnsdiff -d a.cgns nosuch.cgns: status 1: nosuch.cgns:cgio_open_file:file was not found
cgnscheck a.cgns: status 0: 
cgnscheck c.cgns: status 0: ERROR:42 elements are out of range
cgnscheck nosuch.cgns: status 1: CGNSlib ERROR:cg_open:Error opening file: nosuch.cgns not found!
P
echo "as observed: cgnsdiff and cgnscheck exit with 0 after differences and errors"
