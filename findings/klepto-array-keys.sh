#!/usr/bin/env bash
# What: functions of NumPy arrays cached by klepto with picklemap, stringmap, or by klepto.safe without a keymap; PyPI klepto 0.2.8,
#   numpy 2.3.5.
# Guess: another array is another key. picklemap's description: it 'serializes objects by pickling the object', and 'will reliably
#   produce a unique key for all picklable objects'. (Its list of options has 'default: use python's repr' for the serializer.)
# Happens: the key is what repr() prints, unless picklemap is given a serializer: an array of more than 1000 numbers is its first
#   and last three, and numbers have 8 digits. A field that differs in the middle, or in the ninth digit, gets the result of the
#   other, and nothing is said. Without a keymap, klepto's own caches raise TypeError for an array; lists are right.
# Who meets it: results of runs kept in a klepto archive (mystic, pathos) for fields with fixed values at both ends.
# Instead: `klepto.keymaps.picklemap(serializer='pickle')`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install klepto==0.2.8 dill==0.4.1 pox==0.3.7 numpy==2.3.5
cat >program.py <<'P'
import numpy as np, klepto, klepto.safe
from klepto.keymaps import picklemap, stringmap
from klepto.archives import file_archive
rod = np.zeros(1001)
hot = rod.copy(); hot[500] = 100
def show(name, decorator):
    @decorator
    def largest(x): return float(np.max(x))
    @decorator
    def inverse(x): return float(1 / (x[0] - 0.3))
    try:
        print(f"{name}: largest of {largest(rod)}, {largest(hot)};",
              "inverse", round(inverse(np.array([0.3 + 1e-9]))), round(inverse(np.array([0.3 + 2e-9]))))
    except TypeError as error:
        print(f"{name}: TypeError")
show("no cache", lambda f: f)
show("picklemap()", klepto.inf_cache(keymap=picklemap()))
show("picklemap() in a file", klepto.lru_cache(cache=file_archive("results.pkl"), keymap=picklemap()))
show("stringmap()", klepto.inf_cache(keymap=stringmap()))
show("klepto.safe", klepto.safe.inf_cache())
show("klepto without keymap", klepto.inf_cache())
show("picklemap(serializer='pickle')", klepto.inf_cache(keymap=picklemap(serializer="pickle")))
P
v/bin/python program.py | tee out
diff - out <<'P'
no cache: largest of 0.0, 100.0; inverse 999999973 500000000
picklemap(): largest of 0.0, 0.0; inverse 999999973 999999973
picklemap() in a file: largest of 0.0, 0.0; inverse 999999973 999999973
stringmap(): largest of 0.0, 0.0; inverse 999999973 999999973
klepto.safe: largest of 0.0, 0.0; inverse 999999973 999999973
klepto without keymap: TypeError
picklemap(serializer='pickle'): largest of 0.0, 100.0; inverse 999999973 500000000
P
echo "as observed: klepto takes arrays that print alike for one"
