#!/usr/bin/env bash
# What: grib_set with steps and levels that have a unit or a fraction; Debian libeccodes-tools 2.28.0-1.
# Guess: 30 minutes for step=30m, or an error, as for level=abc and gridType=nosuch.
# Happens: the number at the start is taken, and the rest is dropped: step=30m is 30 hours, step=1d is one hour, step=1.5 is 1
#   and level=850.7 is 850. A word that is no typeOfLevel leaves the one that was there. The status is 0, nothing is said.
# Who meets it: those who write GRIB for a model of limited area with output each 15 or 30 minutes, or on levels between
#   the usual ones: the times are read as days later.
# Instead: stepUnits=m,step=30 for minutes; grib_ls of the result.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libeccodes-tools=2.28.0-1 libeccodes0=2.28.0-1 libeccodes-data=2.28.0-1 libaec0 libopenjp2-7 libnetcdf19 \
    libhdf5-103-1 libhdf5-hl-100 libsz2 libcurl4 libpng16-16 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/hdf5/serial PATH=$T/usr/bin:$PATH
export ECCODES_DEFINITION_PATH=$T/usr/share/eccodes/definitions ECCODES_SAMPLES_PATH=$T/usr/share/eccodes/samples
for words in step=6 step=30m stepUnits=m,step=30 step=1d step=1.5 step=6h30 level=850.7 level=abc gridType=nosuch \
    typeOfLevel=surfaces typeOfLevel=surface; do
    rm -f out.grib; status=0
    grib_set -s $words "$ECCODES_SAMPLES_PATH/regular_ll_pl_grib2.tmpl" out.grib 2>/dev/null || status=$?
    is=none; [ ! -f out.grib ] || is=$(grib_get -p step,stepUnits:s,validityDate,validityTime,level,typeOfLevel out.grib)
    [ "$status" = 0 ] || status=error
    echo "$words: $status: $is"
done | tee out
diff - out <<'P'
step=6: 0: 6 h 20070323 1800 850 isobaricInhPa
step=30m: 0: 30 h 20070324 1800 850 isobaricInhPa
stepUnits=m,step=30: 0: 30 m 20070323 1230 850 isobaricInhPa
step=1d: 0: 1 h 20070323 1300 850 isobaricInhPa
step=1.5: 0: 1 h 20070323 1300 850 isobaricInhPa
step=6h30: 0: 6 h 20070323 1800 850 isobaricInhPa
level=850.7: 0: 0 h 20070323 1200 850 isobaricInhPa
level=abc: error: none
gridType=nosuch: error: none
typeOfLevel=surfaces: 0: 0 h 20070323 1200 850 isobaricInhPa
typeOfLevel=surface: 0: 0 h 20070323 1200 85000 surface
P
echo "as observed: grib_set drops units and fractions"
