#!/usr/bin/env python3
"""HCNO's energies by PySCF, a code that shares nothing with NWChem but the basis set's numbers.

    python3 -m venv /tmp/pyscf && /tmp/pyscf/bin/pip install pyscf==2.14.0
    /tmp/pyscf/bin/python reference.py > reference.json
"""

import json
import re
import sys

INPUT = "hcno.nw"
BASIS = "/usr/share/nwchem/libraries/ahlrichs_vtz"


def atoms(text):
    """The atoms of NWChem's geometry block."""
    block = re.search(r"^geometry.*?^end", text, re.MULTILINE | re.DOTALL).group(0)
    return re.findall(r"^\s*([A-Z][a-z]?)((?:\s+-?\d+\.\d+){3})\s*$", block, re.MULTILINE)


def functions(library, element):
    """What NWChem's library has of an element."""
    pattern = rf'^basis "{element}_.*?\n(.*?)^end'
    return re.search(pattern, library, re.MULTILINE | re.DOTALL).group(1)


def main():
    try:
        import pyscf
        from pyscf import ci, gto, mp, scf
    except ImportError:
        sys.exit("PySCF is not here; make a venv and install it, as this file's first lines say")
    from pathlib import Path

    here = Path(__file__).parent
    geometry = atoms((here / INPUT).read_text())
    elements = {element for element, _ in geometry}
    library = Path(BASIS).read_text()
    basis = {element: gto.basis.parse_nwchem.parse(functions(library, element)) for element in elements}
    molecule = gto.M(atom=[f"{e} {xyz}" for e, xyz in geometry], basis=basis, cart=False, verbose=0)
    field = scf.RHF(molecule).set(conv_tol=1e-12, direct_scf_tol=1e-14)
    field.kernel()
    perturbed = mp.MP2(field)
    perturbed.kernel()
    configurations = ci.CISD(field).set(conv_tol=1e-11, max_cycle=200)
    configurations.kernel()
    if not (field.converged and configurations.converged):
        sys.exit("PySCF did not converge")
    found = {
        "by": f"PySCF {pyscf.__version__}",
        "scf_hartree": field.e_tot,
        "mp2_correlation_hartree": perturbed.e_corr,
        "cisd_correlation_hartree": configurations.e_corr,
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
