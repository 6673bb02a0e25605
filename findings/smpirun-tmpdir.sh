#!/usr/bin/env bash
# What: `smpirun -tmpdir FOLDER`, where a simulation keeps a copy of the program for each rank; SimGrid 3.32, Debian 12's
#   libsimgrid-dev 3.32-2+b2.
# Guess: as its help and man page say, temporary files go to that folder.
# Happens: smpirun prints its usage and exits with 1, without a word about what is wrong. The script takes the option and leaves
#   its value, which it then takes for the program, and the options behind it for the program's.
# Who meets it: whoever simulates thousands of ranks where /tmp is small, or is mounted noexec.
# Instead: TMPDIR=FOLDER in smpirun's environment.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libsimgrid-dev=3.32-2+b2 libsimgrid3.32=3.32-2+b2 libboost-context1.74.0 libboost-stacktrace1.74.0 libns3.37 libgsl27 libgslcblas0 \
    libsqlite3-0 libxml2 libgfortran5 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries
usr/bin/smpirun -version
printf '%s\n' '<?xml version="1.0"?>' '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">' '<platform version="4.1">' \
    '<cluster id="c" prefix="node" suffix="" radical="1-2" speed="1Gf" bw="125MBps" lat="5us"/>' '</platform>' >platform.xml
printf '%s\n' node1 node2 >hosts
printf '%s\n' '0 init' '0 send 1 0 1000' '0 finalize' >rank0
printf '%s\n' '1 init' '1 recv 0 0 1000' '1 finalize' >rank1
printf '%s\n' "$T/rank0" "$T/rank1" >trace
mkdir small
simulate() { # options
    local result=0
    usr/bin/smpirun "$@" -np 2 -platform platform.xml -hostfile hosts -replay trace "$libraries/simgrid/smpireplaymain" \
        --cfg=smpi/display-timing:yes --log=root.thresh:error --log=smpi_utils.thresh:info >out 2>&1 || result=$?
    echo "smpirun $*: status $result, usage: $(grep -c '^Usage:' out || true), simulated: $(grep -c 'Simulated time' out || true)"
}
{ simulate; simulate -tmpdir small; TMPDIR=$T/small simulate; } | tee said
diff - said <<'P'
smpirun : status 0, usage: 0, simulated: 1
smpirun -tmpdir small: status 1, usage: 1, simulated: 0
smpirun : status 0, usage: 0, simulated: 1
P
echo "as observed: smpirun's option -tmpdir ends in its usage; TMPDIR works"
