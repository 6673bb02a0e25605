#!/usr/bin/env bash
# What: `solvent NAME` in NWChem's cosmo block; Debian nwchem-mpich 7.0.2-4, one process.
# Guess: a solvent that is not in its table is an error, as an unknown functional is; and capital letters do not matter,
#   as in all of its input.
# Happens: an unknown name is water, with a dielectric constant of 78.4 and status 0. chcl3, thf and dmso are known;
#   ccl4, ch2cl2, acn, meoh and nhexane are not, nor are DMSO and Toluene. The only trace is a line of the parameters:
#   'solvname_long: unknown'.
# Who meets it: energies in solvents: the acetonitrile of a series has the numbers of water, and where solvents are
#   compared, two have the same energy. With do_cosmo_smd it is water's constant without water's other parameters.
# Instead: look for 'solvname_long' in each output, or give the constant by `dielec`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q nwchem-mpich=7.0.2-4 nwchem-data=7.0.2-4 libmpich12=4.0.2-3+b1 libscalapack-mpich2.2=2.2.1-2+b1 \
    libhwloc15 libucx0 libnuma1 libblas3 liblapack3 libgfortran5 libquadmath0 libpython3.11 libexpat1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack FI_PROVIDER=tcp OMP_NUM_THREADS=1 HOME=$T TMPDIR=$T
export NWCHEM_BASIS_LIBRARY=$T/usr/share/nwchem/libraries/
run() { # solvent
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
cosmo; solvent $1; end
TASK DFT
P
    status=0; usr/bin/nwchem.mpich input.nw >output 2>&1 || status=$?
    name=$(sed -n 's/ *solvname_long: *//p' output | xargs)
    echo "$1: status $status, $name, $(grep -o 'eps- .*' output | xargs)," \
        "energy $(awk '/Total DFT energy/{printf "%.6f", $5}' output)"
    rm -f water.*
}
for solvent in h2o toluene Toluene dmso DMSO chcl3 ccl4 acetntrl acn meoh; do run $solvent; done | tee out
diff - out <<'P'
h2o: status 0, water, eps- = 78.40, energy -75.420438
toluene: status 0, toluene, eps- = 2.37, energy -75.414766
Toluene: status 0, unknown, eps- = 78.40, energy -75.420438
dmso: status 0, dimethylsulfoxide, eps- = 46.83, energy -75.420314
DMSO: status 0, unknown, eps- = 78.40, energy -75.420438
chcl3: status 0, chloroform, eps- = 4.71, energy -75.417613
ccl4: status 0, unknown, eps- = 78.40, energy -75.420438
acetntrl: status 0, acetonitrile, eps- = 35.69, energy -75.420218
acn: status 0, unknown, eps- = 78.40, energy -75.420438
meoh: status 0, unknown, eps- = 78.40, energy -75.420438
P
echo "as observed: a solvent that NWChem does not know is water"
