#!/usr/bin/env bash
# What: `conflict` in a module file; Debian lmod 8.6.19-1 and environment-modules 5.2.0-1.
# Guess: the two modules are never loaded together, in whatever order they are named.
# Happens: Lmod looks only while the module with the `conflict` is loaded. The other one may be loaded afterwards, with
#   status 0 and no word. Environment Modules refuses it in both orders.
# Who meets it: an MPI's module has a conflict with another MPI, whose module was made later and has none: a script that
#   loads them in the one order mixes the programs of one and the libraries of the other, and in the other order it is
#   an error. A tree that was tested with Environment Modules is not safe with Lmod.
# Instead: a `conflict` in both files, or `family MPI`: with both tools one of the two is loaded.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
chmod 755 "$T"; cd "$T"
# Each with what it needs and this machine may lack, laid over /usr in a mount namespace of its own.
get() { # folder, packages
    mkdir -p "$T/$1"
    (cd "$T/$1"; apt-get download -q "${@:2}" >/dev/null 2>&1; for deb in *.deb; do dpkg -x "$deb" .; done)
}
get lmod lmod=8.6.19-1 lua5.3 lua-posix lua-filesystem lua-json lua-lpeg lua-term lua-bit32
get modules environment-modules=5.2.0-1 tcl8.6 libtcl8.6 tcl
laid_over() { # folder, command
    unshare -rm sh -c 'mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr; shift; exec "$@"' sh "$@"
}
mkdir -p tree/mpi tree/cuda-mpi
printf '#%%Module1.0\nconflict cuda-mpi\nsetenv MPI 1\n' >tree/mpi/1.0
printf '#%%Module1.0\nsetenv CUDA_MPI 1\n' >tree/cuda-mpi/1.0
cat >session <<'P'
module() { code=$("${modulecmd[@]}" bash "$@" 2>/dev/null) || return; eval "$code"; }
for order in "cuda-mpi mpi" "mpi cuda-mpi"; do
    for name in $order; do status=0; module load "$name" || status=$?; done
    echo "$tool, $order: status $status, loaded: $LOADEDMODULES"
    module purge
done
P
modulecmd='modulecmd=(lua5.3 /usr/share/lmod/lmod/libexec/lmod); tool=Lmod'
environment=(env -i HOME="$T" PATH=/usr/bin:/bin MODULEPATH="$T/tree")
{
    laid_over "$T/lmod" "${environment[@]}" bash -c "$modulecmd; . $T/session"
    modulecmd='modulecmd=(tclsh8.6 /usr/lib/x86_64-linux-gnu/modulecmd.tcl); tool="Environment Modules"'
    laid_over "$T/modules" "${environment[@]}" bash -c "$modulecmd; . $T/session"
} | tee out
diff - out <<'P'
Lmod, cuda-mpi mpi: status 1, loaded: cuda-mpi/1.0
Lmod, mpi cuda-mpi: status 0, loaded: mpi/1.0:cuda-mpi/1.0
Environment Modules, cuda-mpi mpi: status 1, loaded: cuda-mpi/1.0
Environment Modules, mpi cuda-mpi: status 1, loaded: mpi/1.0
P
echo "as observed: Lmod loads a module that conflicts with one that is loaded"
