#!/usr/bin/env bash
# What: slurm_apply of rslurm, twice with one jobname; Debian r-cran-rslurm 0.6.2, r-base-core 4.2.2. The script that it
#   makes for sbatch is run as the array's tasks would run it.
# Guess: get_slurm_out gives the results of the job that it is given, and names the files of tasks that failed.
# Happens: both jobs have the folder _rslurm_JOBNAME, and what is in it stays: a task of the second job that fails, or
#   did not run yet (wait = FALSE), leaves the first job's result in place, which get_slurm_out returns without a word.
# Who meets it: who corrects a function and submits the script again. Where a node is out of memory or time, the numbers
#   of the version before are among the new ones. cleanup_files is asked for after the results, if at all.
# Instead: unlink("_rslurm_NAME", recursive = TRUE) before slurm_apply, or leave the jobname out: it is made up then.
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
version <- as.numeric(commandArgs(TRUE))
f <- function(row) { if (version == 2 && row > 2) quit(status = 1); c(row = row, version = version) }
slurm_apply(f, data.frame(row = 1:4), jobname = "job", nodes = 2, cpus_per_node = 1, submit = FALSE,
    global_objects = "version")
P
cat >gather.R <<'P'
library(rslurm)
options(warn = 1)
result <- get_slurm_out(slurm_job("job", 1, 2), outtype = "table", wait = FALSE)
cat(paste0("row ", result$row, ": version ", result$version, "\n"), sep = "")
P
{
    for version in 1 2; do
        R -f submit.R --args $version >log 2>&1
        for task in 0 1; do
            status=0; (cd _rslurm_job; SLURM_ARRAY_TASK_ID=$task R -f slurm_run.R) >log 2>&1 || status=$?
            echo "version $version, task $task: status $status"
        done
    done
    R -f gather.R 2>&1
    rm _rslurm_job/results_1.RDS
    R -f gather.R 2>&1 | grep missing
} | tee out
diff - out <<'P'
version 1, task 0: status 0
version 1, task 1: status 0
version 2, task 0: status 0
version 2, task 1: status 1
row 1: version 2
row 2: version 2
row 3: version 1
row 4: version 1
  The following files are missing: results_1.RDS
P
echo "as observed: the results of a task that failed are those of an earlier job"
