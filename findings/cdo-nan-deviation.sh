#!/usr/bin/env bash
# What: statistics of a field with a NaN that no _FillValue declares; Debian cdo 2.1.1-1+deb12u1.
# Guess: the standard deviation of a field with a NaN is NaN, as its mean and its variance are.
# Happens: fldmean and fldvar are NaN, fldstd is 0, and so are fldstd1, zonstd, merstd and gridboxstd: a field that
#   does not vary. Nothing is said, and the status is 0. timstd, unlike all of these, gives a missing value.
# Who meets it: who looks for the time steps where an ensemble or a model has converged (`fldstd` below a bound): the
#   ones that diverged are found. Models that write NaN seldom declare it.
# Instead: `cdo -fldstd -setmissval,nan`, which makes NaN the missing value; `-fldcount` says how many are left.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install cdo=2.1.1-1+deb12u1 netcdf-bin | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
cdo -V 2>&1 | head -1
cat >field.cdl <<'E'
netcdf field {
dimensions:
    time = UNLIMITED; lat = 2; lon = 4;
variables:
    double time(time); time:units = "days since 2000-01-01";
    double lat(lat); lat:units = "degrees_north";
    double lon(lon); lon:units = "degrees_east";
    float t(time, lat, lon);
data:
    time = 0, 1; lat = -10, 10; lon = 0, 90, 180, 270;
    t = 1, 2, 3, 4, 5, 6, 7, 8,   1, 2, 3, NaN, 5, 6, 7, 8;
}
E
ncgen -o field.nc field.cdl
{
    for operator in fldmean fldvar fldstd fldstd1 gridboxstd,4,2 "fldstd -setmissval,nan"; do
        result=0
        # shellcheck disable=SC2086
        cdo -s outputf,%.4g -$operator field.nc >words 2>errors || result=$?
        echo "$operator: $(xargs <words), status $result$(grep -v 'Grid cell bounds\|^$' errors || true)"
    done
} | tee out
diff - out <<'E'
fldmean: 4.5 nan, status 0
fldvar: 5.25 nan, status 0
fldstd: 2.291 0, status 0
fldstd1: 2.449 0, status 0
gridboxstd,4,2: 2.291 0, status 0
fldstd -setmissval,nan: 2.291 2.441, status 0
E
echo "as observed: a field with a NaN has a variance of NaN and a standard deviation of 0"
