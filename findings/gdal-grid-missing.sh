#!/usr/bin/env bash
# What: gdal_grid, and gdal_rasterize -a, of stations of which one has no value; Debian gdal-bin 3.6.2+dfsg-1+b2.
# Guess: a station without a value is left out, as a mean in `ogrinfo -sql` leaves it out. The manual: -zfield is 'an attribute field
#   on the features to be used to get a Z value from'; a field that is not there is an error.
# Happens: its value is 0, and so is that of any text: n/a, - and a whole column of names. It counts in means and draws all near it
#   down: 20, 30, none and 40 have a mean of 22.5. In the way of the manual, with CSV and a VRT, as with GeoJSON. The status is
#   0, and nothing is said.
# Who meets it: maps of rain or temperature from stations, on the days when one of them has not reported.
# Instead: `-where "z is not null"` where the field is a number, or `-where "z <> '' and z <> 'n/a'"` for text.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install gdal-bin=3.6.2+dfsg-1+b2 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/gdalinfo" ] || root=$T
L=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$L:$root/usr/lib:$L/blas:$L/lapack OPENBLAS_NUM_THREADS=1
export GDAL_DATA=$root/usr/share/gdal PROJ_LIB=$root/usr/share/proj PATH=$root/usr/bin:$PATH
cat >stations.csv <<'P'
x,y,z,name
0.5,0.5,20,a
2.5,0.5,30,b
0.5,2.5,,c
2.5,2.5,40,d
P
sed 's/,,c/,n\/a,c/' stations.csv >words.csv
for name in stations words; do
    cat >$name.vrt <<P
<OGRVRTDataSource><OGRVRTLayer name="$name"><SrcDataSource>$name.csv</SrcDataSource><GeometryType>wkbPoint</GeometryType>
<GeometryField encoding="PointFromColumns" x="x" y="y"/></OGRVRTLayer></OGRVRTDataSource>
P
done
ogr2ogr -f GeoJSON stations.json stations.csv -oo AUTODETECT_TYPE=YES -oo X_POSSIBLE_NAMES=x -oo Y_POSSIBLE_NAMES=y
export GDAL_PAM_ENABLED=NO
show() { # name, command with arguments
    rm -f out.*; name=$1; shift
    status=0; "$@" -q -txe 0 3 -tye 0 3 -outsize 3 3 -ot Float32 out.tif >words 2>&1 || status=$?
    [ $status = 0 ] || { echo "$name: status $status"; return; }
    gdal_translate -q -of XYZ out.tif out.xyz
    echo "$name: status $status$(grep -q . words && echo ', a word'): $(cut -d' ' -f3 out.xyz | xargs)"
}
{
    echo "mean by ogrinfo: $(ogrinfo -q stations.json -sql 'select avg(z) from stations' | sed -n 's/.*= //p')"
    for source in stations.vrt words.vrt stations.json; do
        show "nearest of $source" gdal_grid -a nearest -zfield z $source
        show "average of $source" gdal_grid -a average -zfield z $source
    done
    show "nearest, -where" gdal_grid -a nearest -zfield z -where 'z is not null' stations.json
    show "average, -where" gdal_grid -a average -zfield z -where 'z is not null' stations.json
    show "average, -where of text" gdal_grid -a average -zfield z -where "z <> '' and z <> 'n/a'" words.vrt
    show "average of the names" gdal_grid -a average -zfield name stations.json
    show "average of nosuch" gdal_grid -a average -zfield nosuch stations.json
    rm -f out.*; gdal_rasterize -q -a z -te 0 0 3 3 -tr 1 1 -a_nodata -1 stations.json out.tif
    gdal_translate -q -of XYZ out.tif out.xyz; echo "gdal_rasterize: $(cut -d' ' -f3 out.xyz | xargs)"
} | tee out
diff - out <<'P'
mean by ogrinfo: 30
nearest of stations.vrt: status 0: 0 40 40 0 40 40 20 30 30
average of stations.vrt: status 0: 22.5 22.5 22.5 22.5 22.5 22.5 22.5 22.5 22.5
nearest of words.vrt: status 0: 0 40 40 0 40 40 20 30 30
average of words.vrt: status 0: 22.5 22.5 22.5 22.5 22.5 22.5 22.5 22.5 22.5
nearest of stations.json: status 0: 0 40 40 0 40 40 20 30 30
average of stations.json: status 0: 22.5 22.5 22.5 22.5 22.5 22.5 22.5 22.5 22.5
nearest, -where: status 0: 40 40 40 20 40 40 20 30 30
average, -where: status 0: 30 30 30 30 30 30 30 30 30
average, -where of text: status 0: 30 30 30 30 30 30 30 30 30
average of the names: status 0: 0 0 0 0 0 0 0 0 0
average of nosuch: status 1
gdal_rasterize: 0 -1 40 -1 -1 -1 20 -1 30
P
echo "as observed: a station without a value has 0 for gdal_grid"
