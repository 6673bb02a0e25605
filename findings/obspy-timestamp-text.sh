#!/usr/bin/env bash
# What: UTCDateTime of a Unix time that is text; PyPI obspy 1.5.1.
# Guess: UTCDateTime("1704448800.5") is that of the number 1704448800.5, or an error, as for "1704448800".
# Happens: the digits are taken for a date without delimiters, and fields may have one digit: it is 4 April of the year 1704,
#   08:08:00.5. Of the times of the year 2024 with a fraction 89 of 100 are read so, and the others are an error.
# Who meets it: times in seconds from a CSV file, a JSON string or an argument of a script. A trace starts in the year 1704, a
#   window cut by them is empty, and the difference of two such times is wrong by minutes to years, with the fraction right.
# Instead: UTCDateTime(float(text)).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T MPLCONFIGDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile obspy==1.5.1 numpy==2.4.6 scipy==1.16.3 setuptools==80.9.0
cat >program.py <<'P'
import warnings
warnings.simplefilter("ignore")     # about pkg_resources, at the import
from obspy import UTCDateTime
warnings.simplefilter("always")
def show(value):
    try: return str(UTCDateTime(value))
    except Exception as error: return type(error).__name__
for value in 1704448800.5, "1704448800.5", "1704448800.0", "1704448800":
    print(repr(value), "is", show(value))
print("150 s later:", UTCDateTime("1704448950.5") - UTCDateTime("1704448800.5"), "s")
first, last = int(UTCDateTime(2024, 1, 1).timestamp), int(UTCDateTime(2025, 1, 1).timestamp)
texts = [f"{second}.5" for second in range(first, last, 10007)]
print(round(100 * sum(show(text).startswith("17") for text in texts) / len(texts)), "of 100 times are in the years 1704 to 1735")
P
v/bin/python program.py 2>&1 | tee out
diff - out <<'P'
1704448800.5 is 2024-01-05T10:00:00.500000Z
'1704448800.5' is 1704-04-04T08:08:00.500000Z
'1704448800.0' is 1704-04-04T08:08:00.000000Z
'1704448800' is ValueError
150 s later: 110.0 s
89 of 100 times are in the years 1704 to 1735
P
echo "as observed: a Unix time as text is a date around the year 1704"
