#!/usr/bin/env bash
# What: lengths as text with a decimal comma, or with a blank in the number, given to Pint; PyPI Pint 0.25.3.
# Guess: an error, as from float("1,5"); or 1.5.
# Happens: commas are dropped: "1,5 m" is 15 m, "0,25 mm" is 0 mm and "2,5e-3 m" is 25 mm. A blank multiplies: "1 500 m" is
#   500 m. No warning. (With a degree, as "12,5 degC", it is an error that speaks of offset units.)
# Who meets it: values from a table, an instrument or a form with the numbers of most of Europe; `ureg(row["length"])`.
# Instead: float() of the number, which refuses both, and Quantity(number, unit).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install Pint==0.25.3
cat >program.py <<'P'
import pint
ureg = pint.UnitRegistry()
for text in "1.5 m", "1,500 m", "1,5 m", "0,25 mm", "2,5e-3 m", "10,0 kg", "1 500 m":
    print(f"{text}: {ureg(text)}", "" if ureg(text) == ureg.Quantity(text) else "or another")
try: float("1,5")
except ValueError as e: print("float:", type(e).__name__)
P
v/bin/python -W error program.py 2>&1 | sed 's/ *$//' | tee out
diff - out <<'P'
1.5 m: 1.5 meter
1,500 m: 1500 meter
1,5 m: 15 meter
0,25 mm: 0 millimeter
2,5e-3 m: 0.025 meter
10,0 kg: 100 kilogram
1 500 m: 500 meter
float: ValueError
P
echo "as observed: Pint drops a decimal comma, and multiplies by what stands before a blank"
