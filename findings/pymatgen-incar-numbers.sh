#!/usr/bin/env bash
# What: numbers with Fortran's exponent D in an INCAR that pymatgen reads; PyPI pymatgen-core 2026.10.16, as of
#   pymatgen 2026.10.24.
# Guess: they are the numbers that VASP, a Fortran program, reads, as for 1.0E-6; or an error, as in a POSCAR.
# Happens: the exponent is dropped: EDIFF = 1.0D-6 is 1.0, ENCUT = 5.2D2 is 5.2, and `4.5D0 1D-1` in LDAUU is the four
#   numbers 4.5 0 1 -1. A file that is read, changed in one tag and written again has these numbers for VASP. Nothing is
#   said, by check_params() neither. A decimal comma is dropped with what follows: -0,01 is -0.0.
# Who meets it: old INCAR files that custodian, atomate2 or a script of one's own takes as a template: the first step of
#   the electrons is 'converged' with an EDIFF of 1 eV.
# Instead: write E, not D: `sed -Ei 's/([0-9.])[dD]([-+]?[0-9])/\1E\2/g' INCAR` before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile --no-deps pymatgen-core==2026.10.16 numpy==2.4.6 \
    scipy==1.17.1 spglib==2.8.0 monty==2026.10.21 ruamel.yaml==0.19.1 orjson==3.13.0 tabulate==0.10.0 tqdm==4.70.1 \
    typing_extensions==4.16.0 lxml==6.1.3
cat >program.py <<'E'
import warnings
from pymatgen.io.vasp import Incar, Poscar
def read(exponent):
    with open("INCAR", "w") as f:
        f.write("ENCUT = 5.2{0}2\nEDIFF = 1.0{0}-6\nEDIFFG = -1{0}-2\nSIGMA = 5{0}-2\nTEBEG = 3.0{0}+2\nLDAUU = 4.5{0}0 1{0}-1\n"
                .format(exponent))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        incar = Incar.from_file("INCAR")
        incar["NSW"] = 0
        incar.check_params()
        incar.write_file("INCAR.new")
    print(f"exponent {exponent}, {len(caught)} warnings:", open("INCAR.new").read().strip().replace("\n", "; "))
read("E")
read("D")
print(repr(Incar.from_str("EDIFFG = -0,01")["EDIFFG"]))
try:
    Poscar.from_str("Na\n1\n4 0 0\n0 4 0\n0 0 4\nNa\n1\nDirect\n5D-1 0 0\n")
except ValueError as error:
    print("POSCAR:", error)
E
v/bin/python program.py | tee out
diff - out <<'E'
exponent E, 0 warnings: EDIFF = 1e-06; EDIFFG = -0.01; ENCUT = 520.0; LDAUU = 4.5 0.1; NSW = 0; SIGMA = 0.05; TEBEG = 300.0
exponent D, 0 warnings: EDIFF = 1.0; EDIFFG = -1.0; ENCUT = 5.2; LDAUU = 4.5 0 1 -1; NSW = 0; SIGMA = 5.0; TEBEG = 3.0
-0.0
POSCAR: could not convert string to float: '5D-1'
E
echo "as observed: pymatgen drops the exponent of 1.0D-6 in an INCAR"
