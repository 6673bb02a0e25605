#!/usr/bin/env bash
# What: the resource `ntasks` with the template for Slurm that batchtools comes with; Debian r-cran-batchtools 0.9.16.
# Guess: ntasks = 4 asks Slurm for four tasks. The template says of it: 'Number of required tasks, Set larger than 1 if
#   you want to further parallelize with MPI within your job'.
# Happens: the template writes --ntasks=1, whatever ntasks is, and nothing is said. A name that it does not know
#   (memroy) is dropped likewise.
# Who meets it: functions that start mpirun or Rmpi in a job. They get one processor, and mpirun refuses four ranks, or,
#   with --oversubscribe or MPICH, has all four share it.
# Instead: a template of one's own with --ntasks=<%= resources$ntasks %>.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-batchtools=0.9.16+dfsg-1 libblas3 liblapack3 \
    r-cran-{backports,base64url,brew,checkmate,data.table,digest,fs,r6,rappdirs,stringi,withr,prettyunits,progress} \
    r-cran-{hms,crayon,rlang,vctrs,lifecycle,glue,cli,pkgconfig,ellipsis} libgfortran5 libquadmath0 libgomp1 \
    libicu72 libreadline8 libtirpc3 libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T TMPDIR=$T
export R_LIBS=$home/site-library R_LIBS_USER=none
R() { "$home/bin/R" --vanilla -s "$@" </dev/null; }
mkdir shim jobs
cat >shim/sbatch <<'P'
#!/bin/sh
cp "$1" "$HOME/script"; echo Submitted batch job 1
P
printf '#!/bin/sh\n' >shim/squeue
chmod +x shim/sbatch shim/squeue
cat >submit.R <<'P'
library(batchtools)
options(batchtools.progress = FALSE)
registry <- makeRegistry(file.dir = NA)
registry$cluster.functions <- makeClusterFunctionsSlurm("slurm-simple")
invisible(batchMap(function(x) x, x = 1))
submitJobs(resources = list(ntasks = 4, ncpus = 2, walltime = 3600, memory = 1000, memroy = 5000))
P
PATH="$T/shim:$PATH" R -f submit.R >log 2>&1 || { cat log; exit 1; }
{
    grep -h 'ntasks.*:' "$home/site-library/batchtools/templates/slurm-simple.tmpl"
    grep '^#SBATCH' script | grep -v -e job-name -e output -e error
} | tee out
diff - out <<'P'
## ntasks [integer(1)]:       Number of required tasks,
#SBATCH --time=60
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=1000
P
if grep -iE 'warn|memroy|ntasks' log; then exit 1; fi
echo "as observed: batchtools' template asks for one task whatever ntasks is"
