#!/usr/bin/env bash
# What: NA in integers for mpi.reduce and mpi.allreduce of Rmpi; Debian r-cran-rmpi 0.6-9.2-2, r-base-core 4.2.2.20221110-2, Open MPI
#   4.1.4-3+b1.
# Guess: NA, as in R, where NA + 5, max(NA, 5) and a sum that is too large for an integer (with a warning) are NA. The manual:
#   'The combined value(s) may be the summation, production, maximum, or minimum'.
# Happens: R's NA is the smallest integer, and MPI counts with it: NA + 5 is -2147483643, NA + NA of two ranks is 0, and NA times 2
#   is 0. "max" drops the NA. A sum that is too large is another number: 2000000000 twice is -294967296. No warning. gather
#   keeps NA, and so does a sum of doubles.
# Who meets it: counts and categories with missing values, as.integer of a condition, read.table's columns of whole numbers, summed
#   over ranks; large counts.
# Instead: as.double(x) with type=2 for sums, which are exact up to 2^53; anyNA(x) first for the rest.
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
export PATH=$T/usr/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
cat >program.R <<'P'
library(Rmpi)
rank <- mpi.comm.rank(0)
show <- function(label, mine, other, ...) {
    mine <- if (rank == 0) mine else other
    operations <- if (is.integer(mine)) c("sum", "prod", "max", "min") else "sum"
    results <- sapply(operations, function(op)
        mpi.allreduce(mine, type = if (is.integer(mine)) 1 else 2, op = op, comm = 0))
    if (rank == 0) cat(label, ": ", paste(operations, results, collapse = ", "), "\n", sep = "")
}
show("3 and 5", 3L, 5L)
show("NA and 5", NA_integer_, 5L)
show("NA and 2", NA_integer_, 2L)
show("NA and NA", NA_integer_, NA_integer_)
show("2000000000 and same", 2000000000L, 2000000000L)
show("NA and 5, doubles", NA_real_, 5)
all <- mpi.gather(if (rank == 0) NA_integer_ else 5L, 1, integer(2), comm = 0)
if (rank == 0) cat("gather:", all, "\nin R:   NA + 5 is", sum(c(NA, 5L)), "and max(NA, 5) is", max(c(NA, 5L)), "\n")
invisible(mpi.finalize())
P
timeout 60 mpirun.openmpi --oversubscribe -n 2 "$home/bin/R" --vanilla -s -f program.R </dev/null | tee out
diff - out <<'P'
3 and 5: sum 8, prod 15, max 5, min 3
NA and 5: sum -2147483643, prod NA, max 5, min NA
NA and 2: sum -2147483646, prod 0, max 2, min NA
NA and NA: sum 0, prod 0, max NA, min NA
2000000000 and same: sum -294967296, prod -1651507200, max 2000000000, min 2000000000
NA and 5, doubles: sum NA
gather: NA 5 
in R:   NA + 5 is NA and max(NA, 5) is NA 
P
echo "as observed: Rmpi counts NA among integers as a number"
