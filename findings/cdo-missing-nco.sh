#!/usr/bin/env bash
# What: missing values that cdo makes in a netCDF-4 file, then NCO or ncdump; Debian cdo 2.1.1-1+deb12u1,
#   nco 5.1.4-1+deb12u1, netcdf-bin 4.9.0.
# Guess: a file of cdo tells its missing values in _FillValue, as its netCDF-3 files do, and every tool leaves them out.
# Happens: in a netCDF-4 file an operator that makes the first missing values of a variable (setrtomiss, ifthen, gtc,
#   timstd, setctomiss ...) writes -9e33 with the old attribute missing_value, but without _FillValue. cdo itself and
#   Python's netCDF4 know that one; for NCO -9e33 is a number: ncwa's mean is -2.25e+33, with status 0, no word said.
# Who meets it: who masks land with cdo and averages with ncra or ncwa, and whose model has gone from netCDF-3 to 4.
# Instead: `cdo -f nc`, which writes netCDF-3, or `ncrename -a .missing_value,_FillValue FILE` before any other tool.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install cdo=2.1.1-1+deb12u1 nco=5.1.4-1+deb12u1 netcdf-bin=1:4.9.0-3+b1 |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/usr/lib/nco
cdo -V 2>&1 | head -1
ncks --version 2>&1 | tail -1
cat >series.cdl <<'E'
netcdf series {
dimensions:
    time = UNLIMITED; x = 4;
variables:
    double time(time); time:units = "days since 2000-01-01";
    float t(time, x);
data:
    time = 0, 1;
    t = 0, 20, 30, 40,   1, 22, 32, 42;
}
E
ncgen -k nc3 -o series-nc3.nc series.cdl
ncgen -k nc4 -o series-nc4.nc series.cdl
values() { ncdump -v t "$1" | sed -n '/^ t =/,$p' | tr -d '}' | xargs; }
{
    for kind in nc3 nc4; do
        cdo -s setrtomiss,0,10 series-$kind.nc masked.nc 2>/dev/null
        echo "$kind: $(ncdump -h masked.nc | grep -o '_FillValue.*\|missing_value.*' | xargs)"
        echo "  ncdump:   $(values masked.nc)"
        echo "  mean of cdo: $(cdo -s outputf,%.4g -fldmean -timmean masked.nc 2>/dev/null | xargs)"
        result=0
        ncwa -O masked.nc mean.nc >words 2>&1 || result=$?
        echo "  mean of NCO: $(values mean.nc), status $result, words $(wc -l <words)"
        rm masked.nc
    done
    cdo -s -f nc setrtomiss,0,10 series-nc4.nc masked.nc 2>/dev/null
    ncwa -O masked.nc mean.nc
    echo "nc4 with -f nc, mean of NCO: $(values mean.nc)"
    cdo -s -O setrtomiss,0,10 series-nc4.nc masked.nc 2>/dev/null
    ncrename -h -a .missing_value,_FillValue masked.nc >/dev/null 2>&1
    ncwa -O masked.nc mean.nc
    echo "nc4 and ncrename, mean of NCO: $(values mean.nc)"
} | tee out
diff - out <<'E'
nc3: _FillValue = -9.e+33f ; missing_value = -9.e+33f ;
  ncdump:   t = _, 20, 30, 40, _, 22, 32, 42 ;
  mean of cdo: 31
  mean of NCO: t = 31 ;, status 0, words 0
nc4: missing_value = -9.e+33f ;
  ncdump:   t = -9e+33, 20, 30, 40, -9e+33, 22, 32, 42 ;
  mean of cdo: 31
  mean of NCO: t = -2.25e+33 ;, status 0, words 0
nc4 with -f nc, mean of NCO: t = 31 ;
nc4 and ncrename, mean of NCO: t = 31 ;
E
echo "as observed: missing values that cdo makes in a netCDF-4 file are numbers for NCO"
