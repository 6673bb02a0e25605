#!/usr/bin/env bash
# What: values of a CDL text that do not fit their variable, with ncgen; Debian netcdf-bin 4.9.0-3+b1,
#   pnetcdf-bin 1.12.3-1 (ncmpigen).
# Guess: an error. The library behind ncgen has one for it (NC_ERANGE, 'Numeric conversion not representable'), and
#   ncgen3 and ncmpigen refuse more values than the variable has.
# Happens: 70000 in a short is 4464, 300 in a byte 44 and 1e40 in a float Infinity, also in attributes, and 3000000000
#   in an int is negative in netCDF-4. Six values for four elements lose two. The status is 0, and nothing is said.
# Who meets it: `ncdump | sed | ncgen`, to put other values into a start file or to make a dimension smaller: a list
#   that was not cut along with its dimension is cut by ncgen, and two-dimensional ones at other columns.
# Instead: ncgen3 for too many values; types that hold them (int, double), and a look at ncdump of the result.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install netcdf-bin=1:4.9.0-3+b1 pnetcdf-bin=1.12.3-1 |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
ncdump 2>&1 | grep -o 'version [0-9.]*' | head -1 || true
make() { # program, type, elements, values
    rm -f one.nc
    echo "netcdf one { dimensions: x = 2; y = $3; variables: $2 v(x, y); data: v = $4; }" >one.cdl
    result=0
    $1 -o one.nc one.cdl >words 2>&1 || result=$?
    values=$(ncdump one.nc | tr -d '\n' | grep -o 'v =.*;' | xargs)
    echo "$1: $2, 2 x $3, $4: $values, status $result, words $(wc -l <words)"
}
{
    make ncgen short 1 "70000, -40000"
    make ncgen byte 1 "300, -200"
    make ncgen float 1 "1e40, 2"
    make "ncgen -k nc4" int 1 "3000000000, 2"
    make ncgen int 2 "1, 2, 3, 4, 5, 6"
    make ncgen3 int 2 "1, 2, 3, 4, 5, 6" | sed 's/v =.*;, //'
    make ncmpigen int 2 "1, 2, 3, 4, 5, 6" | sed 's/v =.*;, //'
} | tee out
diff - out <<'E'
ncgen: short, 2 x 1, 70000, -40000: v = 4464, 25536 ;, status 0, words 0
ncgen: byte, 2 x 1, 300, -200: v = 44, 56 ;, status 0, words 0
ncgen: float, 2 x 1, 1e40, 2: v = Infinityf, 2 ;, status 0, words 0
ncgen -k nc4: int, 2 x 1, 3000000000, 2: v = -1294967296, 2 ;, status 0, words 0
ncgen: int, 2 x 2, 1, 2, 3, 4, 5, 6: v = 1, 2, 3, 4 ;, status 0, words 0
ncgen3: int, 2 x 2, 1, 2, 3, 4, 5, 6: status 4, words 1
ncmpigen: int, 2 x 2, 1, 2, 3, 4, 5, 6: status 4, words 1
E
echo "as observed: ncgen wraps values that do not fit, and drops those that are too many"
