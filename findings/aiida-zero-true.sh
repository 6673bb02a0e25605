#!/usr/bin/env bash
# What: `if node:` of AiiDA's Int, Float and Str; PyPI aiida-core 2.9.4, numpy 2.4.6.
# Guess: a node of 0 is false, as 0 is: Bool(False) and an empty List are false, and Int(0) == 0, + and < work as for numbers.
# Happens: Int(0), Float(0.0) and Str('') are true, as are Dict() and an empty ArrayData: they are objects.
# Who meets it: `if self.inputs.extra_steps:` in a work chain, where a user gave 0 to switch something off: it is on.
# Instead: `.value`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T AIIDA_PATH=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install aiida-core==2.9.4 numpy==2.4.6
cat >program.py <<'E'
from aiida import engine, load_profile, orm
from aiida.storage.sqlite_temp import SqliteTempBackend
load_profile(SqliteTempBackend.create_profile("lab"), allow_switch=True)
print("equal to 0, plus 1, below 1:", orm.Int(0) == 0, (orm.Int(0) + 1).value, bool(orm.Int(0) < 1))
for node in orm.Bool(False), orm.List([]), orm.Int(0), orm.Float(0.0), orm.Str(""), orm.Dict({}):
    value = node.get_dict() if isinstance(node, orm.Dict) else node.get_list() if isinstance(node, orm.List) else node.value
    print(f"{type(node).__name__}({value!r}): {bool(node)}, in Python {bool(value)}")
@engine.calcfunction
def energy(e, correction):
    return orm.Float(e.value + 100) if correction else orm.Float(e.value)
for off in orm.Bool(False), orm.Int(0):
    print(f"correction {type(off).__name__} {off.value}: energy {energy(orm.Float(1.0), off).value}")
E
v/bin/python -W ignore program.py 2>&1 | tee out
diff - out <<'E'
equal to 0, plus 1, below 1: True 1 True
Bool(False): False, in Python False
List([]): False, in Python False
Int(0): True, in Python False
Float(0.0): True, in Python False
Str(''): True, in Python False
Dict({}): True, in Python False
correction Bool False: energy 1.0
correction Int 0: energy 101.0
E
echo "as observed: a node of 0 is true"
