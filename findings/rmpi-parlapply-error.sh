#!/usr/bin/env bash
# What: an error for one element in mpi.parLapply, mpi.parSapply and the like of Rmpi; Debian r-cran-rmpi 0.6-9.2-2, r-base-core
#   4.2.2.20221110-2, Open MPI 4.1.4-3+b1.
# Guess: the call ends with the error: the manual calls them clones of snow's parApply, parLapply and so on, whose calls do. Or the
#   result of that element alone is the error, as for mpi.applyLB and mpi.apply.
# Happens: the text of the error, of class try-error, stands for all elements of that process, good ones included, and nothing is
#   said. The result is shorter than the input, and what follows moves up: of 12 numbers on 3 processes with an error in the
#   second, 9 results are left, and the second is that of the fifth. parSapply makes all of them text.
# Who meets it: fits or simulations of which a few fail, whose results are joined with their parameters by place.
# Instead: tryCatch(..., error = function(e) NA) in the function, and stopifnot(length(result) == length(X)); or mpi.applyLB.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install r-base-core=4.2.2.20221110-2 r-cran-rmpi=0.6-9.2-2 openmpi-bin=4.1.4-3+b1 |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
L=$T/usr/lib/x86_64-linux-gnu home=/usr/lib/R
if [ -d "$T/usr/lib/R/bin" ]; then
    home=$T/usr/lib/R
    sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
    cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
fi
export LD_LIBRARY_PATH=$L:$L/blas:$L/lapack:$home/lib HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
export R_LIBS=$home/library:$T/usr/lib/R/site-library:/usr/lib/R/site-library R_LIBS_USER=none
[ ! -d "$L/openmpi" ] || export OPAL_PREFIX=$T/usr
export PATH=$T/usr/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,tcp OMPI_MCA_pml=ob1
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
cat >program.R <<'P'
library(Rmpi)
suppressWarnings(mpi.spawn.Rslaves(nslaves = 3, quiet = TRUE, needlog = FALSE))
root <- function(x) if (x == 2) stop("no root of 2") else x * 10
show <- function(label, result) {
    result <- sapply(result, function(x) if (inherits(x, "try-error") || grepl("^Error", x)) "error" else format(x))
    cat(label, ": ", length(result), " results, ", paste(result, collapse = " "), "\n", sep = "")
}
show("mpi.parLapply", mpi.parLapply(1:12, root))
show("mpi.parSapply", mpi.parSapply(1:12, root))
show("mpi.parSapply, 6 jobs", mpi.parSapply(1:12, root, job.num = 6))
show("mpi.parApply", mpi.parApply(matrix(1:12), 1, root))
show("mpi.applyLB", mpi.applyLB(1:12, root))
show("mpi.apply", mpi.apply(1:3, root))
invisible(mpi.close.Rslaves())
cluster <- parallel::makePSOCKcluster(3, master = "127.0.0.1", port = as.integer(Sys.getenv("PORT")))
cat("parallel's parLapply:", tryCatch(parallel::parLapply(cluster, 1:12, root), error = conditionMessage), "\n")
parallel::stopCluster(cluster)
invisible(mpi.finalize())
P
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT RHOME=$home OMPI_MCA_rmaps_base_oversubscribe=1
timeout 60 mpirun.openmpi -n 1 "$home/bin/R" --vanilla -s -f program.R </dev/null 2>words | tee out || { cat words; exit 1; }
diff - out <<'P'
mpi.parLapply: 9 results, error 50 60 70 80 90 100 110 120
mpi.parSapply: 9 results, error 50 60 70 80 90 100 110 120
mpi.parSapply, 6 jobs: 11 results, error 30 40 50 60 70 80 90 100 110 120
mpi.parApply: 9 results, error 50 60 70 80 90 100 110 120
mpi.applyLB: 12 results, 10 error 30 40 50 60 70 80 90 100 110 120
mpi.apply: 3 results, 10 error 30
parallel's parLapply: one node produced an error: no root of 2 
P
echo "as observed: one error takes the place of all elements of its process"
