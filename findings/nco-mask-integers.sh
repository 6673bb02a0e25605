#!/usr/bin/env bash
# What: ncwa with a mask (-m, -M, -T, or -B) on integers; Debian nco 5.1.4-1+deb12u1, netcdf-bin 4.9.0.
# Guess: the mean of 10, 20, 30 and 40 where the mask is 0, 1, 1, 0 is 25, for each type of number.
# Happens: it is 25 for float and double, and 0 for int and short, unless the variable has a _FillValue: so are the
#   totals, and rms is a number such as 1330567680. Maxima, minima and weighted means (-w) without a mask are right.
#   Nothing is said, and the status is 0.
# Who meets it: counts, flags and categories (rainy days, cloud tops, an integer time) of a region or a season; the
#   fields of float next to them in the file are right.
# Instead: `ncap2 -s 'n=double(n)'` before, a _FillValue (`ncatted -a _FillValue,n,c,i,-9999`), or -w with the mask.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install nco=5.1.4-1+deb12u1 netcdf-bin=1:4.9.0-3+b1 |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/usr/lib/nco
ncks --version 2>&1 | tail -1
cat >days.cdl <<'E'
netcdf days {
dimensions:
    t = 4;
variables:
    double d(t); float f(t); int n(t); short s(t); int filled(t); filled:_FillValue = -9; double mask(t);
data:
    d = 10, 20, 30, 40; f = 10, 20, 30, 40; n = 10, 20, 30, 40; s = 10, 20, 30, 40; filled = 10, 20, 30, 40;
    mask = 0, 1, 1, 0;
}
E
ncgen -o days.nc days.cdl
{
    for options in "-B mask==1" "-m mask -M 1 -T eq" "-B mask==1 -y ttl" "-B mask==1 -y max" "-w mask"; do
        result=0
        # shellcheck disable=SC2086
        ncwa -O -a t $options -v d,f,n,s,filled days.nc mean.nc >words 2>&1 || result=$?
        values=$(ncdump mean.nc | grep -E '^ (d|f|n|s|filled) =' | tr -d ';' | xargs)
        echo "ncwa $options: $values, status $result, words $(wc -l <words)"
    done
    ncap2 -O -s 'n=double(n); s=double(s)' days.nc doubles.nc
    ncwa -O -a t -B 'mask==1' doubles.nc mean.nc
    echo "as doubles: $(ncdump mean.nc | grep -E '^ (n|s) =' | tr -d ';' | xargs)"
} | tee out
diff - out <<'E'
ncwa -B mask==1: d = 25 f = 25 n = 0 s = 0 filled = 25, status 0, words 0
ncwa -m mask -M 1 -T eq: d = 25 f = 25 n = 0 s = 0 filled = 25, status 0, words 0
ncwa -B mask==1 -y ttl: d = 50 f = 50 n = 0 s = 0 filled = 50, status 0, words 0
ncwa -B mask==1 -y max: d = 30 f = 30 n = 30 s = 30 filled = 30, status 0, words 0
ncwa -w mask: d = 25 f = 25 n = 25 s = 25 filled = 25, status 0, words 0
as doubles: n = 25 s = 25
E
echo "as observed: masked means and totals of integers are 0"
