#!/usr/bin/env bash
# What: `gdalinfo -stats` and `gdal_translate -scale` of a raster whose values have changed since the last `gdalinfo -stats`;
#   Debian gdal-bin and python3-gdal 3.6.2+dfsg-1+b2.
# Guess: the figures of the values in the file. gdalinfo's manual: 'Force computation if no statistics are stored in an image';
#   what is stored is dropped where the file is newer, or at least where GDAL itself writes the new values.
# Happens: the first `-stats` keeps the figures in FILE.aux.xml, which nothing compares with the file. After cp, mv or rsync of
#   another one in its place, after a gdalwarp into it, and after WriteArray by GDAL, the old figures are shown. `-hist` has
#   all values in one bucket, and `gdal_translate -scale` takes the old range: the whole picture is 255. The status is 0.
# Who meets it: a series of runs or a forecast that writes one file of the same name each time: the figures stay those of the first.
# Instead: delete FILE.aux.xml first, or `gdal_edit.py -unsetstats FILE`; `gdalinfo -mm` always computes.
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
for name, low, high in ("monday.tif", 0, 100), ("tuesday.tif", 200, 400):
    raster = gdal.GetDriverByName("GTiff").Create(name, 10, 10, 1, gdal.GDT_Float32)
    raster.SetGeoTransform([0, 1, 0, 10, 0, -1])
    raster.WriteArray(numpy.linspace(low, high, 100).reshape(10, 10))
P
cat >update.py <<'P'
from osgeo import gdal
gdal.Open("today.tif", gdal.GA_Update).WriteArray(gdal.Open("tuesday.tif").ReadAsArray())
P
/usr/bin/python3 make.py
range() { # figures, of the output of gdalinfo
    sed -nE "s|.*$1=([0-9.]+), ?(M[a-z]*=)?([0-9.]+).*|\1 to \3|p"
}
{
    for how in cp mv update warp translate; do
        rm -f today.tif*; cp monday.tif today.tif
        printf '%-9s %s' $how: "$(gdalinfo -stats today.tif | range '  Minimum')"
        case $how in
            cp) cp tuesday.tif today.tif ;;
            mv) cp tuesday.tif new.tif; mv new.tif today.tif ;;
            update) /usr/bin/python3 update.py ;;
            warp) gdalwarp -q tuesday.tif today.tif ;;
            translate) gdal_translate -q tuesday.tif today.tif ;;
        esac
        status=0; gdalinfo -stats today.tif >words || status=$?
        echo ", then $(range '  Minimum' <words), status $status; with -mm $(gdalinfo -mm today.tif | range 'Computed Min/Max')"
        gdal_translate -q -ot Byte -scale today.tif picture.tif
        echo "          picture: $(gdalinfo -mm picture.tif | range 'Computed Min/Max')"
    done
    cp tuesday.tif today.tif; rm -f today.tif.aux.xml
    echo "without today.tif.aux.xml: $(gdalinfo -stats today.tif | range '  Minimum')"
} | tee out
diff - out <<'P'
cp:       0.000 to 100.000, then 0.000 to 100.000, status 0; with -mm 200.000 to 400.000
          picture: 255.000 to 255.000
mv:       0.000 to 100.000, then 0.000 to 100.000, status 0; with -mm 200.000 to 400.000
          picture: 255.000 to 255.000
update:   0.000 to 100.000, then 0.000 to 100.000, status 0; with -mm 200.000 to 400.000
          picture: 255.000 to 255.000
warp:     0.000 to 100.000, then 0.000 to 100.000, status 0; with -mm 200.000 to 400.000
          picture: 255.000 to 255.000
translate: 0.000 to 100.000, then 200.000 to 400.000, status 0; with -mm 200.000 to 400.000
          picture: 0.000 to 255.000
without today.tif.aux.xml: 200.000 to 400.000
P
echo "as observed: gdalinfo -stats shows the figures of the old values"
