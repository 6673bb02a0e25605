#!/usr/bin/env bash
# What: a file of a classic netCDF format (CDF-1, -2, -5) whose end is missing; Debian netcdf-bin 4.9.0-3+b1,
#   nco 5.1.4-1+deb12u1, pnetcdf-bin 1.12.3-1.
# Guess: an error as for netCDF-4 ('HDF error'), or fill values: the header says how many records there are.
# Happens: all of them read zeros where the file ends, with status 0 and without a word: ncdump, NCO (and cdo), and
#   PnetCDF's ncmpidump. nccopy makes a whole file of it, with zeros, and then nothing tells the two apart. ncvalidator
#   has a warning, says that the file is valid, and exits with 0.
# Who meets it: copies that were cut off by a full disk or a lost connection, or are read before they are complete:
#   means and minima of the last steps are too small.
# Instead: `ncvalidator FILE | grep 'less than expected'`, or compare sizes; for new files netCDF-4.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install \
    netcdf-bin=1:4.9.0-3+b1 nco=5.1.4-1+deb12u1 pnetcdf-bin=1.12.3-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/usr/lib/nco
{
    echo 'netcdf whole { dimensions: time = UNLIMITED; x = 1000; variables: double t(time, x); data: t ='
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s%d", i ? ", " : " ", 280 + i % 7; print "; }" }'
} >whole.cdl
{
    for kind in nc3 nc6 nc5 nc4; do
        ncgen -k $kind -o whole.nc whole.cdl
        head -c -8000 whole.nc >cut.nc
        for program in "ncdump -v t" "ncmpidump -v t" "ncwa -O -y min" "nccopy"; do
            [ "$kind $program" != "nc4 ncmpidump -v t" ] || continue
            result=0
            case $program in nc*dump*) set -- cut.nc ;; *) rm -f out.nc; set -- cut.nc out.nc ;; esac
            # shellcheck disable=SC2086
            $program "$@" >text 2>errors || result=$?
            [ $# = 1 ] || ncdump -v t out.nc >text 2>/dev/null || true
            echo "$kind, $program: status $result, errors $([ -s errors ] && echo yes || echo no)," \
                "last value $(sed -n '/t =/,$p' text | tr -d '\n};' | grep -oE '[0-9.]+ *$' | tr -d ' ' || echo none)"
        done
    done
    ncgen -k nc5 -o whole.nc whole.cdl; head -c -8000 whole.nc >cut.nc
    result=0; ncvalidator cut.nc >words 2>&1 || result=$?
    echo "ncvalidator: status $result, $(grep -o 'less than expected' words), $(grep -o 'is a valid' words)"
} | tee out
diff - out <<'P'
nc3, ncdump -v t: status 0, errors no, last value 0
nc3, ncmpidump -v t: status 0, errors no, last value 0
nc3, ncwa -O -y min: status 0, errors no, last value 0
nc3, nccopy: status 0, errors no, last value 0
nc6, ncdump -v t: status 0, errors no, last value 0
nc6, ncmpidump -v t: status 0, errors no, last value 0
nc6, ncwa -O -y min: status 0, errors no, last value 0
nc6, nccopy: status 0, errors no, last value 0
nc5, ncdump -v t: status 0, errors no, last value 0
nc5, ncmpidump -v t: status 0, errors no, last value 0
nc5, ncwa -O -y min: status 0, errors no, last value 0
nc5, nccopy: status 0, errors no, last value 0
nc4, ncdump -v t: status 1, errors yes, last value none
nc4, ncwa -O -y min: status 1, errors yes, last value none
nc4, nccopy: status 1, errors yes, last value none
ncvalidator: status 0, less than expected, is a valid
P
echo "as observed: the missing end of a classic netCDF file is read as zeros"
