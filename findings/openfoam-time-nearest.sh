#!/usr/bin/env bash
# What: `-time 7` of OpenFOAM's reconstructPar, where there is no time 7; Debian openfoam 1912.200626-1+b1.
# Guess: an error, or a warning that there is no such time, as there is for the range `-time 7:9`. The help says: 'select
#   time values'.
# Happens: the nearest time is taken instead, with status 0 and no warning: 3, the last one. `-time 1.4,1.3` is time 1.
#   postProcess and the other tools do so, too.
# Who meets it: scripts that reconstruct a job's last time, where the job ended early, and then copy 'the result' or
#   delete the folders of the processes; a mean that is to be computed at t = 0.15 and is that of t = 0.1.
# Instead: `test -d processor0/7` before, and `test -d 7` after; `-time 7:7` is no help.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install openfoam=1912.200626-1+b1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -d "$T/usr/share/openfoam" ] || root=$T
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$root/usr/lib:$root/usr/lib/openmpi-system:$libraries:$libraries/blas:$libraries/lapack
export WM_PROJECT_DIR=$root/usr/share/openfoam FOAM_ETC=$root/usr/share/openfoam/etc HOME=$T TMPDIR=$T
export PATH=$root/usr/bin:$PATH
mkdir -p case/system case/constant case/0 && cd case
dictionary() { echo "FoamFile {version 2.0; format ascii; class ${2:-dictionary}; object ${1##*/};}" >"$1"; cat >>"$1"; }
dictionary system/controlDict <<'E'
application laplacianFoam; startFrom startTime; startTime 0; stopAt endTime; endTime 3; deltaT 1;
writeControl timeStep; writeInterval 1; writeFormat ascii;
E
dictionary system/fvSchemes <<'E'
ddtSchemes {default Euler;} gradSchemes {default Gauss linear;} divSchemes {default none;}
laplacianSchemes {default Gauss linear corrected;} interpolationSchemes {default linear;}
snGradSchemes {default corrected;}
E
dictionary system/fvSolution <<'E'
solvers {T {solver PCG; preconditioner DIC; tolerance 1e-10; relTol 0;}}
E
dictionary system/blockMeshDict <<'E'
scale 1; vertices ((0 0 0) (4 0 0) (4 1 0) (0 1 0) (0 0 1) (4 0 1) (4 1 1) (0 1 1));
blocks (hex (0 1 2 3 4 5 6 7) (8 1 1) simpleGrading (1 1 1)); edges (); mergePatchPairs ();
boundary (walls {type patch; faces ((0 4 7 3) (1 2 6 5) (0 1 5 4) (3 7 6 2) (0 3 2 1) (4 5 6 7));});
E
dictionary system/decomposeParDict <<'E'
numberOfSubdomains 4; method simple; simpleCoeffs {n (4 1 1); delta 0.001;}
E
dictionary 0/T volScalarField <<'E'
dimensions [0 0 0 1 0 0 0]; internalField uniform 300; boundaryField {walls {type zeroGradient;}}
E
dictionary constant/transportProperties <<'E'
DT DT [0 2 -1 0 0 0 0] 0.1;
E
blockMesh >words
laplacianFoam >words
decomposePar -time 0:3 >words
run() { # command
    status=0
    "$@" >words 2>&1 || status=$?
    echo "$*: status $status,$(grep -oE '^Time = .*' words | sed 's/.*=//' | tr -d '\n'), warnings: $(grep -ciE 'warning' words || true)"
}
{
    ls -d processor0/[0-9]* | tr '\n' ' '; echo
    for times in 2 7 1.4,1.3 2.7 7:9 7:7; do run reconstructPar -time $times; done
    run postProcess -func 'mag(T)' -time 7
} | tee out
diff - out <<'E'
processor0/0 processor0/1 processor0/2 processor0/3 
reconstructPar -time 2: status 0, 2, warnings: 0
reconstructPar -time 7: status 0, 3, warnings: 0
reconstructPar -time 1.4,1.3: status 0, 1, warnings: 0
reconstructPar -time 2.7: status 0, 3, warnings: 0
reconstructPar -time 7:9: status 1,, warnings: 1
reconstructPar -time 7:7: status 0, 3, warnings: 0
postProcess -func mag(T) -time 7: status 0, 3, warnings: 0
E
echo "as observed: -time takes the nearest time"
