#!/usr/bin/env bash
# What: functions of the whole raster, as mean(), in gdal_calc.py; Debian gdal-bin and python3-gdal 3.6.2+dfsg-1+b2.
# Guess: `--calc="A-mean(A)"` takes the mean of the raster: the manual allows 'any numpy array functions'.
# Happens: the expression is computed for one block of the file after another (a few rows, or a tile), and the mean is that of
#   the block. Small files have one block and are right. A copy with other blocks, by `gdal_translate -co TILED=YES`, has
#   other results.
# Who meets it: who subtracts a mean, divides by max() or std(), or shifts by roll(): the picture has stripes at best, and a
#   mask by `A>percentile(A,90)` looks good. What worked for a small part is wrong for all of it.
# Instead: take the figure from `gdalinfo -stats`, or work with numpy on ReadAsArray().
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install gdal-bin=3.6.2+dfsg-1+b2 python3-gdal=3.6.2+dfsg-1+b2 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/gdalinfo" ] || root=$T
L=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$L:$root/usr/lib:$L/blas:$L/lapack PYTHONPATH=$root/usr/lib/python3/dist-packages OPENBLAS_NUM_THREADS=1
export GDAL_DATA=$root/usr/share/gdal PROJ_LIB=$root/usr/share/proj
gdal_calc() { /usr/bin/python3 "$root/usr/bin/gdal_calc.py" --quiet --overwrite "$@"; }
cat >make.py <<'P'
import numpy
from osgeo import gdal
for rows in 4, 400:      # the first half is 10, the second 30: the mean is 20
    raster = gdal.GetDriverByName("GTiff").Create(f"{rows}.tif", 100, rows, 1, gdal.GDT_Float32)
    raster.GetRasterBand(1).WriteArray(numpy.repeat([10, 30], rows // 2 * 100).reshape(rows, 100))
P
cat >show.py <<'P'
import sys
import numpy
from osgeo import gdal
values = gdal.Open("out.tif").ReadAsArray()
print(sys.argv[1], "first row", round(float(values[0, 0]), 2), "last row", round(float(values[-1, 0]), 2))
P
/usr/bin/python3 make.py
"$root/usr/bin/gdal_translate" -q -co TILED=YES 400.tif tiled.tif
{
    for file in 4 400 tiled; do
        for expression in "A-mean(A)" "A/A.max()" "A>mean(A)"; do
            gdal_calc -A $file.tif --outfile=out.tif --type=Float32 --calc="$expression"
            /usr/bin/python3 show.py "$file.tif $expression:"
        done
    done
} | tee out
diff - out <<'P'
4.tif A-mean(A): first row -10.0 last row 10.0
4.tif A/A.max(): first row 0.33 last row 1.0
4.tif A>mean(A): first row 0.0 last row 1.0
400.tif A-mean(A): first row 0.0 last row 0.0
400.tif A/A.max(): first row 1.0 last row 1.0
400.tif A>mean(A): first row 0.0 last row 0.0
tiled.tif A-mean(A): first row -4.38 last row 0.0
tiled.tif A/A.max(): first row 0.33 last row 1.0
tiled.tif A>mean(A): first row 0.0 last row 0.0
P
echo "as observed: mean(A) in gdal_calc is that of a block"
