#!/usr/bin/env bash
# What: a part of a dataset that reaches over its end, with h5dump; Debian hdf5-tools 1.10.8+repack1-1.
# Guess: an error, or the elements that are there.
# Happens: rows over the end are left out, as one may hope, but with one column too many all is left out: DATA is empty,
#   or the file of -o has 0 bytes, and so it is where the part has fewer dimensions than the dataset. The status is 0,
#   and no word is said.
# Who meets it: scripts that cut a field into tiles of one size for other programs: the tiles at the right edge are
#   lost, those at the bottom are shorter, and the ones in the corner are lost.
# Instead: compute the counts at the edges from `h5ls`, and `test -s` each file.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install hdf5-tools=1.10.8+repack1-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
h5repack --version
seq 0 19 >numbers
printf "%s\n" "PATH field" "INPUT-CLASS TEXTIN" "RANK 2" "DIMENSION-SIZES 4 5" >layout
h5import numbers -c layout -o in.h5
{
    # shellcheck disable=SC2086
    for slab in "-s 0,3 -c 2,2" "-s 3,3 -c 2,2" "-s 0,4 -c 2,2" "-s 3,4 -c 2,2" "-s 0 -c 2"; do
        rm -f part; result=0
        h5dump -d field $slab -b -o part in.h5 >words 2>errors || result=$?
        text=$(h5dump -d field $slab in.h5 2>&1 | sed -n '/ DATA {/,/}/p' | tr -d ' \n')
        echo "$slab: $text, $(wc -c <part) bytes, status $result, errors $(wc -l <errors)"
    done
} | tee out
diff - out <<'P'
-s 0,3 -c 2,2: DATA{(0,3):3,4,(1,3):8,9}, 16 bytes, status 0, errors 0
-s 3,3 -c 2,2: DATA{(3,3):18,19,}, 8 bytes, status 0, errors 0
-s 0,4 -c 2,2: DATA{}, 0 bytes, status 0, errors 0
-s 3,4 -c 2,2: DATA{}, 0 bytes, status 0, errors 0
-s 0 -c 2: DATA{}, 0 bytes, status 0, errors 0
P
echo "as observed: h5dump gives nothing of a part that has one column too many, with status 0"
