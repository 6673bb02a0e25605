#!/usr/bin/env bash
# What: hdiff of two HDF4 files where a dataset is in one of them only; Debian hdf4-tools 4.2.15-5.
# Guess: that it is told of, and a status of 1, as for values that differ.
# Happens: only datasets of one name are compared: one that is missing, or renamed, is no difference. There is no output, and
#   the status is 0, even where no name is common. `-v nosuch`, a dataset that neither has, is a status of 0, too.
# Who meets it: tests of a reader or writer of satellite data (MODIS): the test is passed though the field was not written.
# Instead: compare the names first: `hdp dumpsds -h a.hdf | grep Variable`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q hdf4-tools=4.2.15-5 libhdf4-0=4.2.15-5 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib:$T/usr/lib/x86_64-linux-gnu PATH=$T/usr/bin:$PATH
make() { # name, definitions, data
    printf 'netcdf x { dimensions: x = 3; variables: %s data: %s }\n' "$2" "$3" >text
    ncgen-hdf -o "$1" text
}
make both.hdf 'float t(x); short cloud(x);' 't = 1, 2, 3; cloud = 4, 5, 6;'
make other.hdf 'float t(x); short cloud(x);' 't = 1, 2, 7; cloud = 4, 5, 6;'
make one.hdf 'float t(x);' 't = 1, 2, 3;'
make renamed.hdf 'float u(x); short clouds(x);' 'u = 8, 8, 8; clouds = 9, 9, 9;'
for words in 'both.hdf both.hdf' 'both.hdf other.hdf' 'both.hdf one.hdf' 'one.hdf both.hdf' 'both.hdf renamed.hdf' \
    '-v nosuch both.hdf other.hdf' 'both.hdf nosuch.hdf'; do
    status=0
    # shellcheck disable=SC2086
    hdiff $words >output 2>&1 || status=$?
    echo "hdiff $words: status $status, $(wc -l <output) lines"
done | tee out
diff - out <<'P'
hdiff both.hdf both.hdf: status 0, 0 lines
hdiff both.hdf other.hdf: status 1, 3 lines
hdiff both.hdf one.hdf: status 0, 0 lines
hdiff one.hdf both.hdf: status 0, 0 lines
hdiff both.hdf renamed.hdf: status 0, 0 lines
hdiff -v nosuch both.hdf other.hdf: status 0, 0 lines
hdiff both.hdf nosuch.hdf: status 255, 1 lines
P
echo "as observed: a dataset that one file does not have is no difference for hdiff"
