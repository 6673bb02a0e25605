#!/usr/bin/env bash
# What: .multicombine=TRUE of foreach with more than 100 results; Debian R 4.2.2, foreach 1.5.2.
# Guess: .combine is called once with all results: it 'can accept more than two arguments', and with 100 it is.
# Happens: it is called for the first 100 (.maxcombine, by its manual), and then for its own result and the next 99. A mean, median, standard deviation
#   or quantile of 101 results is that of the first hundred's value and the last one. rbind and sum do not mind.
# Who meets it: studies that are tried with a few cases and run with many: from 101 on the figures are wrong, and plausible.
# Instead: .maxcombine=length(cases), or a combine of c and the mean behind the loop.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-doparallel=1.0.17-1 r-cran-foreach=1.5.2-1 r-cran-iterators=1.0.14-1 \
    r-cran-codetools=0.2-19-1 libblas3 liblapack3 libgfortran5 libquadmath0 libgomp1 libicu72 libreadline8 libtirpc3 \
    libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T
export R_LIBS=$home/site-library R_LIBS_USER=none
R() { "$home/bin/R" --vanilla -s "$@" </dev/null; }
cat >program.R <<'P'
suppressMessages(library(foreach))
for (n in c(10, 100, 101, 200)) {
    combine <- function(f) foreach(i = 1:n, .combine = function(...) f(c(...)), .multicombine = TRUE) %do% i
    all <- foreach(i = 1:n, .combine = function(...) mean(c(...)), .multicombine = TRUE, .maxcombine = n) %do% i
    cat(n, "cases: mean", combine(mean), "median", combine(median), "sd", round(combine(sd), 2), "sum", combine(sum),
        "| right:", mean(1:n), median(1:n), round(sd(1:n), 2), sum(1:n), "| mean with .maxcombine", all, "\n")
}
P
R -f program.R | tee out
diff - out <<'P'
10 cases: mean 5.5 median 5.5 sd 3.03 sum 55 | right: 5.5 5.5 3.03 55 | mean with .maxcombine 5.5 
100 cases: mean 50.5 median 50.5 sd 29.01 sum 5050 | right: 50.5 50.5 29.01 5050 | mean with .maxcombine 50.5 
101 cases: mean 75.75 median 75.75 sd 50.9 sum 5151 | right: 51 51 29.3 5151 | mean with .maxcombine 51 
200 cases: mean 174.5025 median 174.75 sd 119.48 sum 20100 | right: 100.5 100.5 57.88 20100 | mean with .maxcombine 100.5 
P
echo "as observed: foreach combines at most 100 results at once"
