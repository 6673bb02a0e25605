#!/usr/bin/env bash
# What: reconstructPar where the folder of the last process is missing; Debian openfoam 1912.200626-1+b1.
# Guess: an error: decomposeParDict has 4 subdomains, and the fields of one of them are not there.
# Happens: the folders are counted, up to the first that is missing. Without processor3 of 4 the fields are reconstructed
#   from three, with status 0 and no warning: its cells hold what was in memory. Without processor2 there is an error.
# Who meets it: clusters whose nodes each write to a disk of their own, and a script that copies the folders together:
#   one node, the last, is down. Zeros are seen in a picture, but such memory may as well hold an older field.
# Instead: count the folders before: `ls -d processor* | wc -l`, or reconstruct in the job.
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
blockMesh >words
decomposePar >words
for process in 0 1 2 3; do    # what a solver would have written
    mkdir processor$process/1
    sed "s/uniform 300;/uniform 40$process;/" processor$process/0/T >processor$process/1/T
done
reconstruct() {
    rm -rf 1; status=0; reconstructPar >words 2>&1 || status=$?
    echo "$1: status $status, warnings and errors: $(grep -ciE 'warning|error' words || true)"
    [ ! -f 1/T ] || awk '/^internalField/ {print}' 1/T | grep -oE '\(.*\)' | tr -d '()' | tr ' ' '\n' |
        sed '/^40[0-3]$/!s/.*/not from the files/' | uniq -c
}
{
    reconstruct "four folders"
    mv processor3 elsewhere; reconstruct "without processor3"
    mv elsewhere processor3; mv processor2 elsewhere; reconstruct "without processor2"
} | tee out
diff - out <<'E'
four folders: status 0, warnings and errors: 0
      2 400
      2 401
      2 402
      2 403
without processor3: status 0, warnings and errors: 0
      2 400
      2 401
      2 402
      2 not from the files
without processor2: status 1, warnings and errors: 1
E
echo "as observed: reconstructPar takes what is in memory for a process whose folder is missing"
