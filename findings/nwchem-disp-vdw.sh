#!/usr/bin/env bash
# What: `disp vdw N` in NWChem's dft block with an N that there is not; Debian nwchem-mpich 7.0.2-4, one process.
# Guess: the kinds are 1 to 4 (4 is D3 with Becke-Johnson damping); another number is an error, as an unknown functional
#   or grid is, and as vdw 4 is with a functional without parameters.
# Happens: vdw 5, 6 or 0 are accepted. The output has the heading 'Dispersion Parameters' as for the others, and the
#   energy is the one without dispersion, to the last digit, with status 0.
# Who meets it: who takes 5 for the kind after D3BJ, or has a template with the number of another program or version:
#   binding energies of a series lack the dispersion.
# Instead: look for the line 'Dispersion correction' in each output.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q nwchem-mpich=7.0.2-4 nwchem-data=7.0.2-4 libmpich12=4.0.2-3+b1 libscalapack-mpich2.2=2.2.1-2+b1 \
    libhwloc15 libucx0 libnuma1 libblas3 liblapack3 libgfortran5 libquadmath0 libpython3.11 libexpat1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack FI_PROVIDER=tcp OMP_NUM_THREADS=1 HOME=$T TMPDIR=$T
export NWCHEM_BASIS_LIBRARY=$T/usr/share/nwchem/libraries/
run() { # what is shown, lines of the dft block
    cat >input.nw <<P
start water
geometry units angstroms
 O 0 0 0.1173
 H 0 0.7572 -0.4692
 H 0 -0.7572 -0.4692
end
basis
 * library 3-21g
end
dft
 $2
end
task dft
P
    status=0; usr/bin/nwchem.mpich input.nw >output 2>&1 || status=$?
    energy=$(awk '/Total DFT energy/{printf "%.6f", $5}' output)
    echo "$1: status $([ $status = 0 ] && echo 0 || echo not 0), energy ${energy:-none}," \
        "$(grep -c 'Dispersion Parameters' output) headings, $(grep -c 'Dispersion correction' output) corrections"
    rm -f water.*
}
{
    run none 'xc b3lyp'
    for kind in 2 3 4 5 6 0; do run "vdw $kind" "xc b3lyp; disp vdw $kind"; done
    run 'vdw 4 of m06' 'xc m06; disp vdw 4'
    run b3lpy 'xc b3lpy'
} | tee out
diff - out <<'P'
none: status 0, energy -75.971518, 0 headings, 0 corrections
vdw 2: status 0, energy -75.971555, 1 headings, 1 corrections
vdw 3: status 0, energy -75.971526, 1 headings, 1 corrections
vdw 4: status 0, energy -75.972092, 1 headings, 1 corrections
vdw 5: status 0, energy -75.971518, 1 headings, 0 corrections
vdw 6: status 0, energy -75.971518, 1 headings, 0 corrections
vdw 0: status 0, energy -75.971518, 1 headings, 0 corrections
vdw 4 of m06: status not 0, energy none, 0 headings, 0 corrections
b3lpy: status not 0, energy none, 0 headings, 0 corrections
P
echo "as observed: a kind of dispersion that there is not is none"
