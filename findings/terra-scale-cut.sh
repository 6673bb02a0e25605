#!/usr/bin/env bash
# What: writeRaster of terra with an integer datatype, alone and with `scale`; Debian r-cran-terra 1.7-3-1, gdal-bin 3.6.2+dfsg-1+b2,
#   r-base-core 4.2.2.20221110-2.
# Guess: the nearest integer, as gdal_translate takes. The manual: 'Cell values written to disk are divided by this value', so that
#   numbers with two decimals and scale=0.01 come back as they are; out of range has a warning.
# Happens: the quotient is cut towards zero. 0.29 / 0.01 is 28.999999999999996 in floating point, and 0.28 is read: one of 8 numbers
#   with two decimals is one unit lower, and each further round of reading and writing takes one more. Without scale 0.94 is 0 and
#   -4.51 is -4. Nothing is said.
# Who meets it: who packs temperatures, rain or heights into INT2S to save space: what was measured to 0.01 is no longer, and means
#   are too low, or too near zero.
# Instead: add half a unit, `writeRaster(x + 0.005 * sign(x), ..., scale=0.01)`, which makes it the nearest one; or "FLT4S".
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install r-base-core=4.2.2.20221110-2 r-cran-terra=1.7-3-1 gdal-bin=3.6.2+dfsg-1+b2 |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/gdalinfo" ] || root=$T
L=$root/usr/lib/x86_64-linux-gnu home=$root/usr/lib/R
if [ -d "$T/usr/lib/R/bin" ]; then
    home=$T/usr/lib/R
    sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
    cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
fi
export LD_LIBRARY_PATH=$L:$L/blas:$L/lapack:$root/usr/lib:$home/lib HOME=$T OPENBLAS_NUM_THREADS=1
export R_LIBS=$home/library:$root/usr/lib/R/library:$root/usr/lib/R/site-library R_LIBS_USER=none
export GDAL_DATA=$root/usr/share/gdal PROJ_LIB=$root/usr/share/proj
cat >program.R <<'P'
suppressMessages(library(terra))
options(warn = 1)
store <- function(values, ...) {
    writeRaster(rast(nrows = 7, ncols = length(values) / 7, vals = values), "out.tif", datatype = "INT2S", overwrite = TRUE, ...)
    values(rast("out.tif"))[, 1]
}
temperature <- (0:1000) / 100
cat("7 numbers, scale=0.01:  ", store(c(0.27, 0.28, 0.29, 0.57, 0.58, 0.94, 1.15), scale = 0.01), "\n")
cat("7 numbers, without:     ", store(c(-4.51, -0.94, 0.29, 0.94, 1.5, 2.9, 7.99)), "\n")
last <- temperature
for (times in 1:4) {
    last <- store(last, scale = 0.01)
    units <- round((temperature - last) * 100)
    cat("written", times, "times: ", sum(units > 0), "of", length(units), "numbers are lower, by up to", max(units), "units\n")
}
half <- store(temperature + 0.005 * sign(temperature), scale = 0.01)
cat("with half a unit added: ", sum(round((temperature - half) * 100) != 0), "of", length(half), "numbers are others\n")
cat("outside of the range:    ")
invisible(store(c(1:6, 400), scale = 0.01))
P
cat >numbers.xyz <<'P'
0.5 0.5 -4.51
1.5 0.5 0.94
2.5 0.5 2.9
0.5 1.5 -0.94
1.5 1.5 1.4
2.5 1.5 7.99
P
{
    "$home/bin/R" --vanilla -s -f program.R </dev/null 2>&1 | grep -v codetools
    "$root/usr/bin/gdal_translate" -q -ot Int16 numbers.xyz out.xyz -of XYZ
    echo "gdal_translate of -4.51 0.94 2.9 -0.94 1.4 7.99: $(cut -d' ' -f3 out.xyz | xargs)"
} | tee out
diff - out <<'P'
7 numbers, scale=0.01:   0.27 0.28 0.28 0.56 0.57 0.93 1.14 
7 numbers, without:      -4 0 0 0 1 2 7 
written 1 times:  125 of 1001 numbers are lower, by up to 1 units
written 2 times:  125 of 1001 numbers are lower, by up to 2 units
written 3 times:  125 of 1001 numbers are lower, by up to 3 units
written 4 times:  125 of 1001 numbers are lower, by up to 4 units
with half a unit added:  0 of 1001 numbers are others
outside of the range:    Warning: [writeRaster] detected values outside of the limits of datatype INT2S
gdal_translate of -4.51 0.94 2.9 -0.94 1.4 7.99: -5 1 3 -1 1 8
P
echo "as observed: terra cuts what it stores as integers"
