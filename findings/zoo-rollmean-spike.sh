#!/usr/bin/env bash
# What: rollmean and rollsum of zoo for a series with one very large or infinite value; R 4.2.2.20221110-2, r-cran-zoo 1.8-11-1.
# Guess: the windows with that value are large or Inf, and all others are right, as by rollapply with a function of the user.
# Happens: all later ones are wrong, too: after 1e20, as a fill value, the means 4.5, 5.5, 6.5 are 0, 1, 2, and after Inf (log of
#   0, division by 0) they are NaN. Nothing is said. rollapply(x, 2, mean) calls rollmean, and does the same. The manual warns
#   of NA alone. The whole series is added up once, and differences are taken. rollmax is right.
# Who meets it: series of a sensor or a simulation with one spike: the smoothed curve is plausible, and shifted, to its end.
# Instead: rollapply(x, k, function(part) mean(part)).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-zoo=1.8-11-1 r-cran-lattice \
    libblas3 liblapack3 libgfortran5 libquadmath0 libgomp1 libicu72 libreadline8 libtirpc3 libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T
export R_LIBS=$home/library:$home/site-library R_LIBS_USER=none
R() { "$home/bin/R" --vanilla -s "$@" </dev/null; }
cat >program.R <<'P'
suppressMessages(library(zoo))
options(warn = 1)
for (spike in c(3, 1e20, Inf)) {
    x <- zoo(c(1, 2, spike, 4, 5, 6, 7))
    cat("spike", spike, "\n")
    cat("  rollmean: ", coredata(rollmean(x, 2)), "\n")
    cat("  rollapply, mean: ", coredata(rollapply(x, 2, mean)), "\n")
    cat("  rollapply, function(part) mean(part): ", coredata(rollapply(x, 2, function(part) mean(part))), "\n")
    cat("  rollsum:  ", coredata(rollsum(x, 2)), "\n")
    cat("  rollmax:  ", coredata(rollmax(x, 2)), "\n")
}
P
R -f program.R 2>&1 | tee out
diff - out <<'P'
spike 3 
  rollmean:  1.5 2.5 3.5 4.5 5.5 6.5 
  rollapply, mean:  1.5 2.5 3.5 4.5 5.5 6.5 
  rollapply, function(part) mean(part):  1.5 2.5 3.5 4.5 5.5 6.5 
  rollsum:   3 5 7 9 11 13 
  rollmax:   2 3 4 5 6 7 
spike 1e+20 
  rollmean:  1.5 5e+19 5e+19 0 1 2 
  rollapply, mean:  1.5 5e+19 5e+19 0 1 2 
  rollapply, function(part) mean(part):  1.5 5e+19 5e+19 4.5 5.5 6.5 
  rollsum:   3 1e+20 1e+20 0 2 4 
  rollmax:   2 1e+20 1e+20 5 6 7 
spike Inf 
  rollmean:  1.5 Inf Inf NaN NaN NaN 
  rollapply, mean:  1.5 Inf Inf NaN NaN NaN 
  rollapply, function(part) mean(part):  1.5 Inf Inf 4.5 5.5 6.5 
  rollsum:   3 Inf Inf NaN NaN NaN 
  rollmax:   2 Inf Inf 5 6 7 
P
echo "as observed: after a spike all later means of rollmean are wrong"
