#!/usr/bin/env bash
# What: floating point numbers in AiiDA's nodes Float, List, Dict and StructureData; PyPI aiida-core 2.9.4, numpy 2.4.6.
# Guess: a stored value is the one that was given: JSON and Python's repr have all 17 digits, as has ArrayData.
# Happens: store() rounds each number to 14 digits, in the node at hand, too, and nothing is said: 1/3 is 0.33333333333333,
#   a time in seconds has lost its microseconds, and whole numbers above 1e14 become other whole numbers, of type int.
# Who meets it: energies of large systems whose differences are small, restarts that should go on bit for bit, and tests
#   that compare a result of AiiDA with one without: before store(), and in plain Python, all digits are there.
# Instead: ArrayData (an array of one element), or Str(value.hex()).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T AIIDA_PATH=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install aiida-core==2.9.4 numpy==2.4.6
cat >program.py <<'E'
import numpy as np
from aiida import load_profile, orm
from aiida.storage.sqlite_temp import SqliteTempBackend
load_profile(SqliteTempBackend.create_profile("lab"), allow_switch=True)
for given in 0.1, 1 / 3, -27211.386245981234, 1795964375.123456, 2.0**53:
    node = orm.Float(given)
    before = node.value
    stored = node.store().value
    array = orm.ArrayData(np.array([given])).store().get_array()[0]
    print(f"{given!r}: unstored {before!r}, Float {stored!r}, List {orm.List([given]).store()[0]!r},",
          f"Dict {orm.Dict({'v': given}).store()['v']!r}, ArrayData {float(array)!r}")
crystal = orm.StructureData(cell=[[10 / 3, 0, 0], [0, 3, 0], [0, 0, 3]])
print("cell", crystal.cell[0][0], crystal.store().cell[0][0])
E
v/bin/python -W ignore program.py | tee out
diff - out <<'E'
0.1: unstored 0.1, Float 0.1, List 0.1, Dict 0.1, ArrayData 0.1
0.3333333333333333: unstored 0.3333333333333333, Float 0.33333333333333, List 0.33333333333333, Dict 0.33333333333333, ArrayData 0.3333333333333333
-27211.386245981234: unstored -27211.386245981234, Float -27211.386245981, List -27211.386245981, Dict -27211.386245981, ArrayData -27211.386245981234
1795964375.123456: unstored 1795964375.123456, Float 1795964375.1235, List 1795964375.1235, Dict 1795964375.1235, ArrayData 1795964375.123456
9007199254740992.0: unstored 9007199254740992.0, Float 9007199254741000, List 9007199254741000, Dict 9007199254741000, ArrayData 9007199254740992.0
cell 3.3333333333333335 3.3333333333333
E
echo "as observed: AiiDA stores 14 digits"
