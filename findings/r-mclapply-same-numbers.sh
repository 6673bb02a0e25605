#!/usr/bin/env bash
# What: random numbers of mclapply, called twice, with RNGkind("L'Ecuyer-CMRG") as for reproducible ones; Debian R 4.2.2,
#   doParallel 1.0.17, foreach 1.5.2.
# Guess: other numbers in each call, as in a loop of rnorm(), and as with the generator that R has without RNGkind.
# Happens: the numbers of the first call again: each call starts its streams from the seed of the main process, which the
#   calls leave as it is. So do pvec and foreach with doParallel's cores. A cluster with clusterSetRNGStream goes on.
# Who meets it: Monte Carlo in rounds (`while (error > tolerance) more <- mclapply(...)`), or for several parameters, after
#   set.seed: all rounds are one, and the error that is estimated from them gets smaller for nothing.
# Instead: `runif(1)` in the main process between the calls, which moves its seed: the runs stay reproducible.
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
suppressMessages({library(parallel); library(doParallel)})
rounds <- function(name, f, between = function() NULL) {
    first <- unlist(f()); between(); second <- unlist(f())
    cat(name, ": ", if (identical(first, second)) "the same numbers again" else "others", "\n", sep = "")
}
draw <- function(i) rnorm(1)
use <- function() mclapply(1:4, draw, mc.cores = 2)
registerDoParallel(cores = 2)
set.seed(1); rounds("mclapply, R's own generator", use)
RNGkind("L'Ecuyer-CMRG"); set.seed(1)
rounds("lapply", function() lapply(1:4, draw))
rounds("mclapply", use)
rounds("mclapply, mc.preschedule = FALSE", function() mclapply(1:4, draw, mc.cores = 2, mc.preschedule = FALSE))
rounds("mclapply, runif(1) between", use, function() runif(1))
rounds("pvec", function() pvec(1:4, function(v) rnorm(length(v)), mc.cores = 2))
rounds("foreach with cores", function() foreach(i = 1:4) %dopar% rnorm(1))
cluster <- makeForkCluster(2); clusterSetRNGStream(cluster, 1)
rounds("parLapply", function() parLapply(cluster, 1:4, draw))
stopCluster(cluster)
set.seed(1)
means <- replicate(25, mean(unlist(mclapply(1:100, draw, mc.cores = 2))))
cat("25 means of 100 numbers: standard deviation", sd(means), "\n")
P
R -f program.R | tee out
diff - out <<'P'
mclapply, R's own generator: others
lapply: others
mclapply: the same numbers again
mclapply, mc.preschedule = FALSE: the same numbers again
mclapply, runif(1) between: others
pvec: the same numbers again
foreach with cores: the same numbers again
parLapply: others
25 means of 100 numbers: standard deviation 0 
P
echo "as observed: mclapply has the random numbers of its last call again"
