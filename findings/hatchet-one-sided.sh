#!/usr/bin/env bash
# What: a + b, a - b and a / b of two profiles with different functions; PyPI llnl-hatchet 2026.2.0, pandas 2.3.3.
# Guess: a function that one run has not called took 0 s there, as its source has it ('rows will contain zeros'): a + b
#   has the seconds of both, a - b is -(b - a), and a / b of a function that b lacks is infinite or NaN.
# Happens: what b alone has is NaN in all three, and pandas' sum leaves it out; what a alone has keeps its value in all
#   three: in a / b its seconds stand where a ratio should be.
# Who meets it: two versions, or two numbers of processes, of a program compared: a function that is new has no time in
#   after - before, and the 'slowest' by before / after is one that is gone.
# Instead: look at the column _missing_node before; or merge the two dataframes by name, with fill_value=0.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install llnl-hatchet==2026.2.0 pandas==2.3.3 numpy==2.4.6
cat >program.py <<'E'
import hatchet
def profile(**seconds):
    def node(name, time, children=()):
        return {"frame": {"name": name, "type": "function"}, "metrics": {"time": time}, "children": list(children)}
    return hatchet.GraphFrame.from_literal([node("main", 1.0, [node(name, time) for name, time in seconds.items()])])
before, after = profile(solve=8.0, copy=30.0), profile(solve=4.0, pack=50.0)
for what, result in (("before", before), ("after", after), ("before + after", before + after), ("before - after", before - after),
                     ("after - before", after - before), ("before / after", before / after)):
    times = result.dataframe.set_index("name").time.sort_index()
    print(f"{what}:", *(f"{name} {time}" for name, time in times.items()), f"sum {times.sum()}")
E
v/bin/python -W ignore program.py | tee out
diff - out <<'E'
before: copy 30.0 main 1.0 solve 8.0 sum 39.0
after: main 1.0 pack 50.0 solve 4.0 sum 55.0
before + after: copy 30.0 main 2.0 pack nan solve 12.0 sum 44.0
before - after: copy 30.0 main 0.0 pack nan solve 4.0 sum 34.0
after - before: copy nan main 0.0 pack 50.0 solve -4.0 sum 46.0
before / after: copy 30.0 main 1.0 pack nan solve 2.0 sum 33.0
E
echo "as observed: hatchet has NaN for one side and keeps the other"
