#!/usr/bin/env bash
# What: PnetCDF's comparison of a file with NaN in it and its copy; Debian pnetcdf-bin 1.12.3-1 (cdfdiff, ncmpidiff).
# Guess: a file and its copy are equal, and a tolerance makes a comparison milder, never stricter.
# Happens: cdfdiff says that they are equal. With `-t 2,2` it says that they differ, and so does ncmpidiff, with and without -t:
#   'value nan vs nan (difference = nan)', status 1. The manuals describe both tools by one text, which has no word of NaN.
# Who meets it: models that mark land, or cells outside of the domain, by NaN: a regression test by ncmpidiff, or one that was given
#   a tolerance because the number of ranks changes the last digits, can not pass any more.
# Instead: a _FillValue that is a number; or `cmp` first, and nccmp or numpy's allclose(..., equal_nan=True) where it fails.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
chmod 755 "$T"; cd "$T"
apt-get download -q pnetcdf-bin=1.12.3-1 libpnetcdf0d=1.12.3-1 libopenmpi3=4.1.4-3+b1 libhwloc15 libhwloc-plugins libevent-core-2.1-7 libevent-pthreads-2.1-7 \
    libpmix2 libfabric1 libpsm-infinipath1 libpsm2-2 librdmacm1 libibverbs1 libucx0 libnl-3-200 libnl-route-3-200 openmpi-common >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
here() { # command, where the packages are unpacked over /usr
    unshare -m sh -c 'mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr; shift; exec "$@"' sh "$T" \
        env OMPI_MCA_btl=self OMPI_MCA_pml=ob1 HOME="$T" TMPDIR="$T" "$@"
}
cat >write.py <<'P'
import math, struct, sys
def netcdf(values):  # the classic format: one dimension, one variable of doubles that begins at byte 80
    text = lambda s: struct.pack(">i", len(s)) + s.ljust(-(-len(s) // 4) * 4, b"\0")
    head = b"CDF\x01" + struct.pack(">i", 0) + struct.pack(">ii", 10, 1) + text(b"x") + struct.pack(">i", len(values)) + bytes(8)
    head += struct.pack(">ii", 11, 1) + text(b"t") + struct.pack(">ii", 1, 0) + bytes(8) + struct.pack(">iii", 6, 8 * len(values), 80)
    assert len(head) == 80
    return head + struct.pack(f">{len(values)}d", *values)
for name, values in (("one", [1, 2, 3]), ("two", [1, 2, 4]), ("nan", [1, 2, math.nan])):
    open(f"{name}.nc", "wb").write(netcdf(values))
P
python3 write.py; cp one.nc one-copy.nc; cp nan.nc nan-copy.nc
while read -r tool one two options; do
    result=0; here "$tool" $options "$one.nc" "$two.nc" >words 2>&1 </dev/null || result=$?
    echo "$tool $one $two $options: status $result$(grep -o ' value nan vs nan' words | sed 's/^/,/')"
done <<'P' | sed 's/ :/:/' | tee out
cdfdiff one one-copy
cdfdiff one two
cdfdiff one two -t 2,2
cdfdiff nan nan-copy
cdfdiff nan nan-copy -t 2,2
ncmpidiff one one-copy
ncmpidiff one two -t 2,2
ncmpidiff nan nan-copy
ncmpidiff nan nan-copy -t 2,2
P
diff - out <<'P'
cdfdiff one one-copy: status 0
cdfdiff one two: status 1
cdfdiff one two -t 2,2: status 0
cdfdiff nan nan-copy: status 0
cdfdiff nan nan-copy -t 2,2: status 1, value nan vs nan
ncmpidiff one one-copy: status 0
ncmpidiff one two -t 2,2: status 0
ncmpidiff nan nan-copy: status 1, value nan vs nan
ncmpidiff nan nan-copy -t 2,2: status 1, value nan vs nan
P
echo "as observed: a file with NaN differs from its copy, for ncmpidiff, and for cdfdiff once it has a tolerance"
