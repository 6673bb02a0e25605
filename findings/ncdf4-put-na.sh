#!/usr/bin/env bash
# What: the vector that ncvar_put was given, where it has NA; R 4.2.2.20221110-2, r-cran-ncdf4 1.21-1.
# Guess: it stays as it was: a function of R does not change its arguments. The manual says of NA: 'they are converted to
#   the netCDF variable's missing value attribute before being written'.
# Happens: they are converted in the caller's vector: after ncvar_put x has -999 in place of NA, and so have y, where y <-
#   x, and the column of a data frame. mean(x, na.rm = TRUE) is -248 for 7 / 3. Nothing is said. Integers are copied, and
#   stay.
# Who meets it: a script that writes its field and then plots it, takes its mean, or writes it to a second file, whose
#   missing value is another one.
# Instead: ncvar_put(file, name, x + 0), which is a copy, or all files written last.
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
put <- function(values) {
    file <- nc_create("t.nc", ncvar_def("t", "", space, missval = -999))
    ncvar_put(file, "t", values)
    nc_close(file)
}
x <- c(1, 2, NA, 4); y <- x
put(x)
cat("x after put(x):", x, "\n")
cat("y, where y <- x before:", y, "\n")
cat("mean(x, na.rm = TRUE):", mean(x, na.rm = TRUE), "\n")
table <- data.frame(hour = 1:4, t = c(1, 2, NA, 4))
put(table$t)
cat("column t of a data frame after put(table$t):", table$t, "\n")
x <- c(1L, 2L, NA, 4L); put(x)
cat("x of integers:", x, "\n")
x <- c(1, 2, NA, 4); put(x + 0)
cat("x after put(x + 0):", x, "\n")
P
"$home/bin/R" --vanilla -s -f program.R 2>&1 </dev/null | tee out
diff - out <<'P'
x after put(x): 1 2 -999 4 
y, where y <- x before: 1 2 -999 4 
mean(x, na.rm = TRUE): -248 
column t of a data frame after put(table$t): 1 2 -999 4 
x of integers: 1 2 NA 4 
x after put(x + 0): 1 2 NA 4 
P
echo "as observed: ncvar_put replaces NA in the caller's vector"
