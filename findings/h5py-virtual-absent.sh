#!/usr/bin/env bash
# What: a virtual dataset that joins the files of several ranks, where one of them is missing; PyPI h5py 3.16.0, numpy 2.4.6.
# Guess: an error on reading, as for an external link to a file that is not there.
# Happens: the rows of that rank are zeros. So they are where the file has no dataset of that name, and so are all rows once
#   the joint file was moved to another folder without the others. No word, and no status tells.
# Who meets it: one file for each rank, joined by h5py.VirtualLayout because it copies nothing: a rank that was killed before
#   its first write, or a joint file that was copied home alone.
# Instead: fillvalue=np.nan in create_virtual_dataset, and os.path.exists for each dataset.virtual_sources().
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install h5py==3.16.0 numpy==2.4.6
cat >program.py <<'P'
import os, h5py, numpy as np
def write(rank, name="u"):
    with h5py.File(f"rank{rank}.h5", "w") as file: file[name] = np.full(3, rank + 1.0)
layout = h5py.VirtualLayout(shape=(3, 3), dtype="f8")
for rank in range(3):
    write(rank)
    layout[rank] = h5py.VirtualSource(f"rank{rank}.h5", "u", shape=(3,))
with h5py.File("all.h5", "w") as file:
    file.create_virtual_dataset("u", layout)
    file.create_virtual_dataset("marked", layout, fillvalue=np.nan)
    file["link"] = h5py.ExternalLink("rank1.h5", "u")
def show(what, name="all.h5", dataset="u"):
    with h5py.File(name) as file: print(f"{what}:", *(list(map(float, row)) for row in file[dataset][:]))
show("all there")
os.remove("rank1.h5"); show("rank1.h5 is missing"); show("with fillvalue", dataset="marked")
try: show("external link", dataset="link")
except KeyError as e: print("external link:", type(e).__name__)
write(1, "v"); show("rank1.h5 has no u")
write(1); show("all there again")
os.mkdir("home"); os.rename("all.h5", "home/all.h5"); os.chdir("home"); show("copied home alone")
P
v/bin/python program.py | tee out
diff - out <<'P'
all there: [1.0, 1.0, 1.0] [2.0, 2.0, 2.0] [3.0, 3.0, 3.0]
rank1.h5 is missing: [1.0, 1.0, 1.0] [0.0, 0.0, 0.0] [3.0, 3.0, 3.0]
with fillvalue: [1.0, 1.0, 1.0] [nan, nan, nan] [3.0, 3.0, 3.0]
external link: KeyError
rank1.h5 has no u: [1.0, 1.0, 1.0] [0.0, 0.0, 0.0] [3.0, 3.0, 3.0]
all there again: [1.0, 1.0, 1.0] [2.0, 2.0, 2.0] [3.0, 3.0, 3.0]
copied home alone: [0.0, 0.0, 0.0] [0.0, 0.0, 0.0] [0.0, 0.0, 0.0]
P
echo "as observed: a virtual dataset has zeros where a file is missing"
