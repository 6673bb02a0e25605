#!/usr/bin/env bash
# What: std and var of unsigned integers once octave's package statistics is loaded; Octave 7.3.0-2, octave-statistics
#   1.5.3-2 of Debian 12.
# Guess: as before. The package warns that its std.m and var.m shadow those of the core; they are those of Octave 9, and
#   take integers.
# Happens: for uint8 and uint16 all values below the mean count as the mean: the deviation of 100, 200 and 201 is 33.5,
#   not 58.0, and that of an image about 0.7 of the right one. A correlation of an image with itself is 2.0, not 1.
#   Nothing is said of it. Signed integers are right.
# Who meets it: noise and contrast of images, in a script that has `pkg load statistics` for another function.
# Instead: std(double(x)).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q octave=7.3.0-2 octave-common=7.3.0-2 octave-statistics=1.5.3-2 libaec0 libamd2 libarpack2 libcamd2 \
    libccolamd2 libcholmod3 libcolamd2 libcxsparse3 libfftw3-double3 libfftw3-single3 libgl2ps1.4 \
    libgraphicsmagick++-q16-12 libgraphicsmagick-q16-3 libhdf5-103-1 libhwy1 libjxl0.7 libmetis5 libpcre3 libqrupdate1 \
    libspqr2 libsuitesparseconfig5 libsz2 libumfpack5 libwebpmux3 libwmflite-0.2-7 libblas3 liblapack3 libgfortran5 \
    libquadmath0 libgomp1 libreadline8 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$T/usr/lib:$T/lib/x86_64-linux-gnu:$libraries/blas:$libraries/lapack
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$libraries/octave/7.3.0
export OCTAVE_HOME=$T/usr OCTAVE_EXEC_HOME=$T/usr HOME=$T
octave() { "$T/usr/bin/octave-cli" --norc --no-history "$@" </dev/null; }
cat >program.m <<'P'
x = [100 200 201]; ramp = repmat(1:200, 10, 1);
function show(x, ramp)
    printf("  std of 100 200 201: double %.1f, uint8 %.1f, int16 %.1f; var of uint8 %g\n", ...
        std(x), std(uint8(x)), std(int16(x)), var(uint8(x)));
    printf("  std of an image of 1 to 200: double %.1f, uint8 %.1f, uint16 %.1f\n", ...
        std(ramp(:)), std(uint8(ramp(:))), std(uint16(ramp(:))));
    printf("  correlation of that image with itself: double %.2f, uint8 %.2f\n", ...
        corr(ramp(:), ramp(:)), corr(uint8(ramp(:)), uint8(ramp(:))));
end
disp("before:"); show(x, ramp)
warning("off", "Octave:shadowed-function");
folder = [getenv("T") "/usr/share/octave/packages/statistics-1.5.3"];
addpath(folder);                                            # runs PKG_ADD, as pkg load does
printf("with the package statistics, std of %s:\n", strrep(which("std"), folder, ""));
show(x, ramp)
P
export T
octave program.m 2>&1 | tee out
diff - out <<'P'
before:
  std of 100 200 201: double 58.0, uint8 58.0, int16 58.0; var of uint8 3367
  std of an image of 1 to 200: double 57.7, uint8 57.7, uint16 57.7
  correlation of that image with itself: double 1.00, uint8 1.00
with the package statistics, std of /shadow9/std.m:
  std of 100 200 201: double 58.0, uint8 33.5, int16 58.0; var of uint8 1122.5
  std of an image of 1 to 200: double 57.7, uint8 41.1, uint16 41.1
  correlation of that image with itself: double 1.00, uint8 1.97
P
echo "as observed: with the package statistics the deviation of unsigned integers is too small"
