#!/usr/bin/env bash
# What: hpcc (HPC Challenge) with a hpccinf.txt for more processes than there are, or without one; Debian hpcc 1.5.0-3.
# Guess: it ends with an error and measures nothing.
# Happens: one line on stderr, 'Need at least 4 processes' or 'cannot open file', and it measures a problem of its own
#   (N = 2560, one row and one column of processes). hpccoutf.txt has HPL_Tflops, Success=1 and no word of it; the
#   status is 0. The example that the package comes with is for 2 x 2. Success=0, of a wrong solution, has status 0,
#   too.
# Who meets it: jobs whose number of processes is another one than P x Q, and benchmarks in a folder without the file:
#   the figure is that of a matrix of 50 MB on one process, and stderr is in another file. hpccoutf.txt is
#   appended to, so that its first figure may be one of an older run.
# Instead: compare HPL_N, HPL_nprow and HPL_npcol in hpccoutf.txt with what was asked for.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install hpcc=1.5.0-3 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/hpcc" ] || root=$T
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1 HOME=$T TMPDIR=$T
[ ! -d "$T/usr/lib/x86_64-linux-gnu/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self OMPI_MCA_pml=ob1
export OMPI_MCA_ess_singleton_isolated=1      # no orted
example=$(find "$root/usr/share/doc/hpcc" -name '_hpccinf.txt*' | sed -n 1p)
run() {
    rm -f hpccoutf.txt; status=0; "$root/usr/bin/hpcc" >/dev/null 2>words || status=$?
    echo "$1: status $status, $(sed -n 's/>>> \(.*\) <<</\1/p' words | sort -u | sed 's/$/, /')$(
        grep -E '^(Success|HPL_N)=' hpccoutf.txt | sed '/N=1000$/!s/HPL_N=.*/another N/' | sort | xargs)," \
        "$(grep -cE 'hpccinf|Need at least' hpccoutf.txt || true) words of it in hpccoutf.txt"
}
{
    zcat -f "$example" | sed -E 's/^2( +[PQ]s)/1\1/' >hpccinf.txt
    run '1 x 1'
    sed -i 's/^16.0 /1e-9 /' hpccinf.txt
    run 'no residual is small enough'
    zcat -f "$example" >hpccinf.txt
    run '2 x 2'
    rm hpccinf.txt
    run 'no file'
} | tee out
diff - out <<'P'
1 x 1: status 0, HPL_N=1000 Success=1, 0 words of it in hpccoutf.txt
no residual is small enough: status 0, HPL_N=1000 Success=0, 0 words of it in hpccoutf.txt
2 x 2: status 0, Need at least 4 processes for these tests, Success=1 another N, 0 words of it in hpccoutf.txt
no file: status 0, cannot open file hpccinf.txt, Success=1 another N, 0 words of it in hpccoutf.txt
P
echo "as observed: hpcc measures a problem of its own where its input is refused"
