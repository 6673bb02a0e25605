#!/usr/bin/env bash
# What: `gdalwarp -ot Byte` or `-ot Int16` of a raster with missing points whose nodata value the new type does not have; Debian
#   gdal-bin and python3-gdal 3.6.2+dfsg-1+b2.
# Guess: missing points stay missing: 'nodata values will be copied from the source dataset', or the value is changed with a
#   warning, as gdal_translate does.
# Happens: the points become the nearest number of the new type, 0 or 32767, and the nodata value is copied as it is: -9999 in bytes,
#   9.97e36 or NaN in 16-bit integers. No point has it, and the zeros are data: means and minima are wrong. No word, status 0.
#   Of 9.97e36 zeros are made even with -dstnodata 255.
# Who meets it: temperatures, rain or heights brought to another grid and made smaller in one step; 9.97e36 is what netCDF fills with.
# Instead: `-wt Float32 -dstnodata 255`, or another value that the new type has and the data have not; and look at the result.
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
export GDAL_DATA=$root/usr/share/gdal PROJ_LIB=$root/usr/share/proj PATH=$root/usr/bin:$PATH
cat >make.py <<'P'
import numpy
from osgeo import gdal
for name, missing in ("-9999", -9999), ("9.97e36", 9.969209968386869e36), ("nan", numpy.nan):
    raster = gdal.GetDriverByName("GTiff").Create(name + ".tif", 3, 1, 1, gdal.GDT_Float32)
    raster.SetGeoTransform([0, 1, 0, 1, 0, -1])
    raster.GetRasterBand(1).SetNoDataValue(missing)
    raster.WriteArray(numpy.array([[missing, 20, 40]]))
P
/usr/bin/python3 make.py
show() { # name, command with arguments
    name=$1; shift
    status=0; "$@" 2>words || status=$?
    gdalinfo -stats out.tif >figures
    gdal_translate -q -of XYZ out.tif out.xyz
    echo "$name: status $status$(grep -q . words && echo ', a warning'): $(cut -d' ' -f3 out.xyz | xargs)," \
        "nodata $(sed -n 's/.*NoData Value=//p' figures), mean $(sed -nE 's/.*Mean=([0-9.]+),.*/\1/p' figures)"
    rm -f out.*
}
{
    for missing in -9999 9.97e36 nan; do
        echo "missing is $missing, the rest 20 and 40:"
        show "    gdalwarp" gdalwarp -q "./$missing.tif" out.tif
        for type in Byte Int16; do
            show "    gdalwarp -ot $type" gdalwarp -q -ot $type "./$missing.tif" out.tif
        done
        show "    gdalwarp -ot Byte -dstnodata 255" gdalwarp -q -ot Byte -dstnodata 255 "./$missing.tif" out.tif
        show "    gdalwarp -ot Byte -dstnodata 255 -wt Float32" gdalwarp -q -ot Byte -dstnodata 255 -wt Float32 "./$missing.tif" out.tif
        show "    gdal_translate -ot Byte" gdal_translate -q -ot Byte "./$missing.tif" out.tif
    done
} | tee out
diff - out <<'P'
missing is -9999, the rest 20 and 40:
    gdalwarp: status 0: -9999 20 40, nodata -9999, mean 30.000
    gdalwarp -ot Byte: status 0: 0 20 40, nodata -9999, mean 20.000
    gdalwarp -ot Int16: status 0: -9999 20 40, nodata -9999, mean 30.000
    gdalwarp -ot Byte -dstnodata 255: status 0: 255 20 40, nodata 255, mean 30.000
    gdalwarp -ot Byte -dstnodata 255 -wt Float32: status 0: 255 20 40, nodata 255, mean 30.000
    gdal_translate -ot Byte: status 0, a warning: 0 20 40, nodata 0, mean 30.000
missing is 9.97e36, the rest 20 and 40:
    gdalwarp: status 0: 9.96920996838686905e+36 20 40, nodata 9.96921e+36, mean 30.000
    gdalwarp -ot Byte: status 0: 0 20 40, nodata 9.969209968386869e+36, mean 20.000
    gdalwarp -ot Int16: status 0: 32767 20 40, nodata 9.969209968386869e+36, mean 10942.333
    gdalwarp -ot Byte -dstnodata 255: status 0: 0 20 40, nodata 255, mean 20.000
    gdalwarp -ot Byte -dstnodata 255 -wt Float32: status 0: 255 20 40, nodata 255, mean 30.000
    gdal_translate -ot Byte: status 0, a warning: 255 20 40, nodata 255, mean 30.000
missing is nan, the rest 20 and 40:
    gdalwarp: status 0: nan 20 40, nodata nan, mean 30.000
    gdalwarp -ot Byte: status 0: 0 20 40, nodata nan, mean 20.000
    gdalwarp -ot Int16: status 0: 0 20 40, nodata nan, mean 20.000
    gdalwarp -ot Byte -dstnodata 255: status 0: 255 20 40, nodata 255, mean 30.000
    gdalwarp -ot Byte -dstnodata 255 -wt Float32: status 0: 255 20 40, nodata 255, mean 30.000
    gdal_translate -ot Byte: status 0, a warning: 0 20 40, nodata 0, mean 30.000
P
echo "as observed: gdalwarp makes data of missing points"
