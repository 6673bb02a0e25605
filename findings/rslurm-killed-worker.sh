#!/usr/bin/env bash
# What: slurm_apply of rslurm where a process of a node is killed; Debian r-cran-rslurm 0.6.2, r-base-core 4.2.2. The
#   script that it makes for sbatch is run as an array's task 0 would run it.
# Guess: the results have one element for each row of the parameters, NULL or an error for those that are lost, as
#   mclapply has it; or the job fails.
# Happens: the elements are left out, so that all others move up: of 8 rows the results of 2, 4, 6 and 8 are elements
#   1 to 4. The job exits with 0, and get_slurm_out says nothing. `params$y <- result$y` then repeats the four values.
#   The cause is R's mcmapply (also in programs without rslurm), which leaves out what mclapply has as NULL.
# Who meets it: jobs with cpus_per_node > 1 one process of which takes too much memory and is killed by Slurm's or the
#   kernel's limit. The warning is in slurm_0.out only.
# Instead: return the parameter with the result, and compare: stopifnot(nrow(result) == nrow(params)).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-rslurm=0.6.2+dfsg-1 r-cran-whisker=0.4.1-1 libblas3 liblapack3 \
    libgfortran5 libquadmath0 libgomp1 libicu72 libreadline8 libtirpc3 libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T
export R_LIBS=$home/site-library R_LIBS_USER=none
R() { "$home/bin/R" --vanilla -s "$@" </dev/null; }
cat >submit.R <<'P'
library(rslurm)
cat(R.version.string, "\n")
lost <- function(row) { if (row == 3) tools::pskill(Sys.getpid(), 9); c(row = row, square = row^2) }
slurm_apply(lost, data.frame(row = 1:8), jobname = "job", nodes = 1, cpus_per_node = 2, submit = FALSE)
P
cat >gather.R <<'P'
library(rslurm)
result <- get_slurm_out(slurm_job("job", 1, 1), outtype = "table", wait = FALSE)
cat("rows:", result$row, "\n")
params <- data.frame(row = 1:8)
params$square <- result$square
cat("row 2 has", params$square[2], "and row 7", params$square[7], "\n")
one <- function(row) { if (row == 3) tools::pskill(Sys.getpid(), 9); row }
cat("mclapply:", format(parallel::mclapply(1:4, one, mc.cores = 2)), "\n")
cat("mcmapply:", format(parallel::mcmapply(one, 1:4, SIMPLIFY = FALSE, mc.cores = 2)), "\n")
P
R -f submit.R 2>&1 | sed -n 1p
status=0; (cd _rslurm_job; SLURM_ARRAY_TASK_ID=0 R -f slurm_run.R) >log 2>&1 || status=$?
{ echo "job's status $status"; R -f gather.R 2>/dev/null; } | sed 's/ *$//' | tee out
diff - out <<'P'
job's status 0
rows: 2 4 6 8
row 2 has 16 and row 7 36
mclapply: NULL 2 NULL 4
mcmapply: 2 4
P
echo "as observed: the rows of a killed process are left out, and the others move up"
