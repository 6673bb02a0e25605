#!/usr/bin/env bash
# What: hwloc-calc with a place that is not there or that it cannot read; Debian hwloc-nox 2.9.0-1.
# Guess: a status that is not 0. hwloc-calc(1): it 'will return nonzero if any kind of error occurs'; hwloc-bind does.
# Happens: a line on standard error, and the status is 0: a core that is not there is left out or is the empty set 0x0,
#   `core:0,1` and `cores:0` are 'ignored', and so is the kind in `-N cores`, which prints nothing.
# Who meets it: `cpus=$(hwloc-calc ...)` in job scripts with `set -e`: a PC with fewer cores than others, or a list with
#   commas as taskset has. Where several places are given, one that is wrong leaves fewer processors.
# Instead: look for 0x0 and an empty result; `core:0-1` or `core:0 core:1`; check that standard error is empty (with -q
#   there is none for places that are not there).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q hwloc-nox=2.9.0-1 libhwloc15=2.9.0-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
try() {
    status=0; set_of=$(usr/bin/hwloc-calc -i 'package:2 core:4 pu:2' "$@" 2>/dev/null) || status=$?
    echo "hwloc-calc $*: '$set_of', status $status"
}
{
    try core:0 core:1; try core:0-1; try core:0,1; try cores:0; try core:8; try core:0 core:8; try core:0 cores:1
    try -N core all; try -N cores all; try -I cores all
    status=0; usr/bin/hwloc-bind core:9999 -- true 2>/dev/null || status=$?
    echo "hwloc-bind core:9999 -- true: status $status"
} | tee out
diff - out <<'E'
hwloc-calc core:0 core:1: '0x0000000f', status 0
hwloc-calc core:0-1: '0x0000000f', status 0
hwloc-calc core:0,1: '0x0', status 0
hwloc-calc cores:0: '0x0', status 0
hwloc-calc core:8: '0x0', status 0
hwloc-calc core:0 core:8: '0x00000003', status 0
hwloc-calc core:0 cores:1: '0x00000003', status 0
hwloc-calc -N core all: '8', status 0
hwloc-calc -N cores all: '', status 0
hwloc-calc -I cores all: '', status 0
hwloc-bind core:9999 -- true: status 1
E
echo "as observed: hwloc-calc exits with 0 where a place is not there"
