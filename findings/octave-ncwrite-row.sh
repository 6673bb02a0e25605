#!/usr/bin/env bash
# What: ncwrite of a row vector; Octave 7.3.0-2, octave-netcdf 1.0.16-2 of Debian 12, 'Matlab compatible NetCDF
#   interface'.
# Guess: ncwrite('run.nc', 'time', 0:10:50) fills the variable, whose six elements it has, or is refused for its shape.
# Happens: the first element is written, and no other: the rest keeps its fill value 9.97e+36, or what it was before, and
#   an unlimited dimension has length 1. Nothing is said. The count is size(x, 1), which is 1 for a row. A column is
#   written whole.
# Who meets it: axes and time series, because ranges and linspace are rows: the file's axis is 0, 9.97e+36, 9.97e+36 ...
# Instead: ncwrite(file, name, x(:)).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q octave=7.3.0-2 octave-common=7.3.0-2 octave-netcdf=1.0.16-2 libnetcdf19 libhdf5-hl-100 libaec0 \
    libamd2 libarpack2 libcamd2 libccolamd2 libcholmod3 libcolamd2 libcxsparse3 libfftw3-double3 libfftw3-single3 \
    libgl2ps1.4 libgraphicsmagick++-q16-12 libgraphicsmagick-q16-3 libhdf5-103-1 libhwy1 libjxl0.7 libmetis5 libpcre3 \
    libqrupdate1 libspqr2 libsuitesparseconfig5 libsz2 libumfpack5 libwebpmux3 libwmflite-0.2-7 libblas3 liblapack3 \
    libgfortran5 libquadmath0 libgomp1 libreadline8 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$T/usr/lib:$T/lib/x86_64-linux-gnu:$libraries/blas:$libraries/lapack
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$libraries/octave/7.3.0
export OCTAVE_HOME=$T/usr OCTAVE_EXEC_HOME=$T/usr HOME=$T
octave() { "$T/usr/bin/octave-cli" --norc --no-history "$@" </dev/null; }
cat >program.m <<'P'
addpath([getenv("T") "/usr/share/octave/packages/netcdf-1.0.16"]);      # as pkg load does
addpath([getenv("T") "/usr/lib/x86_64-linux-gnu/octave/packages/netcdf-1.0.16/x86_64-pc-linux-gnu-api-v57"]);
function show(what, name), printf("%s:", what); printf(" %g", ncread("run.nc", name)); printf("\n"); end
nccreate("run.nc", "time", "Dimensions", {"time", 6});
ncwrite("run.nc", "time", 0:10:50);
show("row into a new variable", "time");
ncwrite("run.nc", "time", (0:10:50)');
show("column", "time");
ncwrite("run.nc", "time", 100:10:150);
show("another row into it", "time");
nccreate("run.nc", "energy", "Dimensions", {"step", Inf});
ncwrite("run.nc", "energy", [-7.1 -7.2 -7.3]);
show("row along an unlimited dimension", "energy");
P
export T
octave program.m 2>&1 | tee out
diff - out <<'P'
row into a new variable: 0 9.96921e+36 9.96921e+36 9.96921e+36 9.96921e+36 9.96921e+36
column: 0 10 20 30 40 50
another row into it: 100 10 20 30 40 50
row along an unlimited dimension: -7.1
P
echo "as observed: of a row vector the first element is written"
