#!/usr/bin/env bash
# What: JobAttributes.parse_walltime of PSI/J with a number and a unit; PyPI psij-python 0.9.11.
# Guess: it takes 'hh:mm:ss, hh:mm, mm, or n\s*[h|m|s]', as its own error says, and raises ValueError for all else.
# Happens: it looks for the first digits that an h, an m or an s follows, anywhere in the text, and takes only these.
#   1.5h is five hours, 1h30m is one, 1d12h is twelve, `2 days 6 hours` is six, and 30ms is half an hour.
# Who meets it: programs that hand on a limit from their own settings. A job of `1d12h` is killed after 12 hours; one of
#   `1.5h` asks for five and waits for a larger hole in the schedule.
# Instead: datetime.timedelta(hours=1.5), or hh:mm:ss, whose hours may be more than 24.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install psij-python==0.9.11
cat >program.py <<'P'
import warnings; warnings.simplefilter("ignore")
from psij import JobAttributes
for text in "90", "36:00:00", "90m", "1.5h", "1h30m", "1d12h", "2 days 6 hours", "30ms", "2d", "long":
    try:
        got = JobAttributes.parse_walltime(text)
    except ValueError:
        got = "ValueError"
    print(f"{text}: {got}")
P
HOME=$T v/bin/python program.py | tee out
diff - out <<'P'
90: 1:30:00
36:00:00: 1 day, 12:00:00
90m: 1:30:00
1.5h: 5:00:00
1h30m: 1:00:00
1d12h: 12:00:00
2 days 6 hours: 6:00:00
30ms: 0:30:00
2d: ValueError
long: ValueError
P
echo "as observed: parse_walltime takes one number out of the text and drops the rest"
