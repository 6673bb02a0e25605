#!/usr/bin/env bash
# What: cs2cs, and proj, of coordinates in forms that other programs write; Debian proj-bin 9.1.1-1+b1, and GeoConvert of
#   geographiclib-tools 2.1.2-1 beside it. The manual: the input is 'DMS or decimal degrees', in two words; more text is kept.
# Guess: a word that is not wholly a number is an error for its line, `* *`, or other ways of writing are read (GeoConvert does both).
# Happens: each word is read as far as it goes. 55:30 12:30 (GMT, GPS logs), 55,5 12,5 (a German PC) and 55.5,12.5 (a CSV file)
#   become 55 0 or 55.5 0: minutes are dropped, and the second coordinate is 0. Fortran's 0.555D+02 is 0.555 degrees. The rest
#   of the line stands glued to the height, and the status is 0. 'nan 12' and a heading, 'north east', are the point 0 0.
#   (GeoConvert takes the D for degrees too, and adds: 2.555.)
# Who meets it: whoever pipes a station list or a model's output through `cs2cs ... | awk '{print $1, $2}'`: two plausible
#   columns of metres, hundreds of kilometres off.
# Instead: sed 's/[,;]/ /g' for a CSV file, d for the colon (55d30), E for D; and refuse a third column that is not a number.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q proj-bin=9.1.1-1+b1 libproj25=9.1.1-1+b1 proj-data=9.1.1-1 geographiclib-tools=2.1.2-1 libgeographiclib23=2.1.2-1 libtiff6 \
    libcurl4 libsqlite3-0 libwebp7 libzstd1 liblerc4 libjbig0 libjpeg62-turbo libdeflate0 libnghttp2-14 librtmp1 libssh2-1 libpsl5 libldap-2.5-0 libsasl2-2 libbrotli1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu PROJ_DATA=$T/usr/share/proj
show() { # a line
    local status=0
    echo "$1 | cs2cs: $(echo "$1" | usr/bin/cs2cs -f %.0f EPSG:4326 EPSG:32632 | tr '\t' ' '), status $?"
    echo "$1" | usr/bin/GeoConvert -g >words || status=$?
    echo "$1 | GeoConvert: $(cut -c 1-16 words), status $status"
}
usr/bin/cs2cs 2>&1 | head -n 1 || true
for line in '55.5 12.5' '55d30 12d30' '55:30 12:30' '55,5 12,5' '55.5,12.5' '0.555D+02 0.125D+02' 'nan 12' 'north east'; do show "$line"; done | tee out
diff - out <<'P'
55.5 12.5 | cs2cs: 721048 6156000 0, status 0
55.5 12.5 | GeoConvert: 55.50000 12.5000, status 0
55d30 12d30 | cs2cs: 721048 6156000 0, status 0
55d30 12d30 | GeoConvert: 55.50000 12.5000, status 0
55:30 12:30 | cs2cs: -74900 6131905 0:30 12:30, status 0
55:30 12:30 | GeoConvert: 55.50000 12.5000, status 0
55,5 12,5 | cs2cs: -74900 6131905 0,5 12,5, status 0
55,5 12,5 | GeoConvert: ERROR: Coordinat, status 1
55.5,12.5 | cs2cs: -67691 6187303 0,12.5, status 0
55.5,12.5 | GeoConvert: 55.50000 12.5000, status 0
0.555D+02 0.125D+02 | cs2cs: -280846 61808 0D+02, status 0
0.555D+02 0.125D+02 | GeoConvert: 2.55500 2.12500, status 0
nan 12 | cs2cs: -505647 0 0an 12, status 0
nan 12 | GeoConvert: nan 12.00000, status 0
north east | cs2cs: -505647 0 0orth east, status 0
north east | GeoConvert: ERROR: Illegal c, status 1
P
echo "as observed: what cs2cs cannot read is cut off, and the second coordinate becomes 0"
