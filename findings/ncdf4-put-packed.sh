#!/usr/bin/env bash
# What: ncvar_put to a packed variable, one with scale_factor and add_offset; R 4.2.2.20221110-2, r-cran-ncdf4 1.21-1.
# Guess: it packs, as ncvar_get unpacks ('automatically and silently scaled', so its manual): what is read, changed and
#   written is read again.
# Happens: the numbers are stored as they are, cut to integers: 290.5 K is stored as 290, and read as 302.9 K with a scale
#   of 0.01 and an offset of 300. To write back what was read changes every value. Nothing is said, and the manual of
#   ncvar_put has no word of it.
# Who meets it: corrections of reanalysis or satellite files, which are packed: ncvar_get, a change, ncvar_put into a copy
#   of the file.
# Instead: pack it, ncvar_put(file, name, round((x - offset) / scale)), and look at one value with ncvar_get.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-ncdf4=1.21-1 libnetcdf19 libhdf5-103-1 libhdf5-hl-100 libsz2 \
    libaec0 libcurl3-gnutls libblas3 liblapack3 libgfortran5 libquadmath0 libgomp1 \
    libicu72 libreadline8 libtirpc3 libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T
export R_LIBS=$home/library:$home/site-library R_LIBS_USER=none
cat >program.R <<'P'
suppressMessages(library(ncdf4))
options(warn = 1)
space <- ncdim_def("x", "", 1:4)
file <- nc_create("t.nc", ncvar_def("t", "K", space, missval = -32768, prec = "short"))
ncatt_put(file, "t", "scale_factor", 0.01)
ncatt_put(file, "t", "add_offset", 300)
show <- function(what) {
    nc_sync(file)
    cat(what, ": read ", paste(ncvar_get(file, "t"), collapse = " "), ", in the file ",
        paste(ncvar_get(file, "t", raw_datavals = TRUE), collapse = " "), "\n", sep = "")
}
right <- c(290.5, 301.25, NA, 310)
write <- function(x) ncvar_put(file, "t", round((x - 300) / 0.01))
nc_close(file); file <- nc_open("t.nc", write = TRUE)       # as a user opens it
write(right)
show("packed by the caller")
ncvar_put(file, "t", ncvar_get(file, "t"))
show("read, and written back")
ncvar_put(file, "t", right)
show("290.5 301.25 NA 310 put")
ncvar_put(file, "t", right + 1)
show("one kelvin more")
nc_close(file)
P
"$home/bin/R" --vanilla -s -f program.R 2>&1 </dev/null | tee out
diff - out <<'P'
packed by the caller: read 290.5 301.25 NA 310, in the file -950 125 -32768 1000
read, and written back: read 302.9 303.01 NA 303.1, in the file 290 301 -32768 310
290.5 301.25 NA 310 put: read 302.9 303.01 NA 303.1, in the file 290 301 -32768 310
one kelvin more: read 302.91 303.02 -27.67 303.11, in the file 291 302 -32767 311
P
echo "as observed: ncvar_put does not pack what ncvar_get unpacks"
