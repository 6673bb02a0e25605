#!/usr/bin/env bash
# What: read.big.matrix of numbers that the matrix's type does not hold; R 4.2.2.20221110-2, r-cran-bigmemory 4.6.1-1.
# Guess: NA, which is what the same number is after `m[1, 1] <- 70000`, with a warning; or an error.
# Happens: it is read as another number, and nothing is said: in a short 70000 is 4464 and 40000 is -25536, in a char 200 is
#   -56. With type integer a number above 2147483647 is NA.
# Who meets it: bigmemory is for data that a PC's memory does not hold otherwise, and the smaller types are how one saves it:
#   counts of reads, pixels, energies in a table of a cluster's jobs. A few large values become small or negative.
# Instead: type = "integer" or "double"; or look at the extremes first: awk -F, '{for (i = 1; i <= NF; i++) ...}'.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-bigmemory=4.6.1-1 r-cran-bigmemory.sri=0.1.6-1 r-cran-uuid r-cran-rcpp \
    libblas3 liblapack3 libgfortran5 libquadmath0 libgomp1 libicu72 libreadline8 libtirpc3 libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T
export R_LIBS=$home/site-library R_LIBS_USER=none
R() { "$home/bin/R" --vanilla -s "$@" </dev/null; }
printf '%s\n' 1 200 40000 70000 3000000000 >numbers.csv
cat >program.R <<'P'
suppressMessages(library(bigmemory))
options(bigmemory.typecast.warning = FALSE)     # that one comes for each number, also for those that fit
text <- function(values) sapply(values, format, scientific = FALSE)
numbers <- scan("numbers.csv", quiet = TRUE)
cat("numbers:", text(numbers), "\n")
for (type in c("char", "short", "integer", "double")) {
    show <- function(how, expression) {
        words <- 0
        result <- withCallingHandlers(expression, warning = function(w) { words <<- words + 1; invokeRestart("muffleWarning") })
        cat(type, how, result, "|", words, "warnings\n")
    }
    show("read:", text(read.big.matrix("numbers.csv", type = type)[, 1]))
    m <- big.matrix(5, 1, type = type)
    show("assigned:", { for (i in 1:5) m[i, 1] <- numbers[i]; text(m[, 1]) })
}
P
R -f program.R 2>&1 | tee out
diff - out <<'P'
numbers: 1 200 40000 70000 3000000000 
char read: 1 -56 64 112 0 | 0 warnings
char assigned: 1 NA NA NA NA | 1 warnings
short read: 1 200 -25536 4464 0 | 0 warnings
short assigned: 1 200 NA NA NA | 1 warnings
integer read: 1 200 40000 70000 NA | 0 warnings
integer assigned: 1 200 40000 70000 NA | 1 warnings
double read: 1 200 40000 70000 3000000000 | 0 warnings
double assigned: 1 200 40000 70000 3000000000 | 0 warnings
P
echo "as observed: read.big.matrix makes 4464 of 70000 in a short, and nothing is said"
