#!/usr/bin/env bash
# What: `module load NAME` on one tree of module files; Debian lmod 8.6.19-1 and environment-modules 5.2.0-1.
# Guess: both load the same version: the highest one, for they read the same files and claim to be compatible.
# Happens: of 4.1.0 and 4.1.0rc1, Lmod loads the release and Environment Modules the release candidate. With two folders
#   in MODULEPATH, Lmod loads the highest version of both and Environment Modules the one of the first folder. Of 2023.1
#   and 2023b they pick differently as well. All exit with 0 and say nothing.
# Who meets it: clusters whose head has one and whose PCs have the other (Debian packages both; Slurm's `module load` runs
#   on the node): the MPI that builds a program is not the one that runs it.
# Instead: write the version in each `module load`, or put a symbolic link `default` beside the versions: both follow it.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
chmod 755 "$T"; cd "$T"
# Each with what it needs and this machine may lack, laid over /usr in a mount namespace of its own.
get() { # folder, packages
    mkdir -p "$T/$1"; (cd "$T/$1"; apt-get download -q "${@:2}" >/dev/null 2>&1; for deb in *.deb; do dpkg -x "$deb" .; done; ls ./*.deb)
}
get lmod lmod=8.6.19-1 lua5.3 lua-posix lua-filesystem lua-json lua-lpeg lua-term lua-bit32
get modules environment-modules=5.2.0-1 tcl8.6 libtcl8.6 tcl
laid_over() { # folder, command
    unshare -rm sh -c 'mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr; shift; exec "$@"' sh "$@"
}
for file in tree/mpi/4.1.0 tree/mpi/4.1.0rc1 tree/intel/2023.1 tree/intel/2023b tree/fftw/3.3 more/fftw/3.4 tree/gcc/9.1 tree/gcc/10.1 tree/set/1.0 tree/set/2.0; do
    mkdir -p "${file%/*}"; printf '#%%Module1.0\nsetenv LOADED %s\n' "$file" >"$file"
done
ln -s 1.0 tree/set/default
environment=(env -i HOME="$T" PATH=/usr/bin:/bin MODULEPATH="$T/tree:$T/more")
for name in gcc set mpi intel fftw; do
    lmod=$(laid_over "$T/lmod" "${environment[@]}" lua5.3 /usr/share/lmod/lmod/libexec/lmod bash load "$name" 2>&1 | sed -nE 's/.*LOADED="?([^";]*).*/\1/p' | head -n 1)
    modules=$(laid_over "$T/modules" "${environment[@]}" tclsh8.6 /usr/lib/x86_64-linux-gnu/modulecmd.tcl bash load "$name" 2>&1 | sed -nE 's/.*LOADED=([^;]*).*/\1/p' | head -n 1)
    echo "$name: Lmod $lmod, Environment Modules $modules"
done | tee out
diff - out <<'P'
gcc: Lmod tree/gcc/10.1, Environment Modules tree/gcc/10.1
set: Lmod tree/set/1.0, Environment Modules tree/set/1.0
mpi: Lmod tree/mpi/4.1.0, Environment Modules tree/mpi/4.1.0rc1
intel: Lmod tree/intel/2023.1, Environment Modules tree/intel/2023b
fftw: Lmod more/fftw/3.4, Environment Modules tree/fftw/3.3
P
echo "as observed: one tree, two defaults"
