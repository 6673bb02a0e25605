#!/usr/bin/env bash
# What: cfgrib and its index file, where the GRIB file is replaced by another of that name; PyPI cfgrib 0.9.15.1, eccodes 2.50.0,
#   xarray 2026.9.0.
# Guess: the new file is read, for the index is of the old one.
# Happens: the index counts unless it is older than the file. `cp -p`, `rsync -a` and `tar -x` give the new file its own, older
#   time: dates, steps and places in the file are those of the old one, the values those of the new one. No word.
# Who meets it: forecasts copied to one name each day (latest.grib): today's field has yesterday's date.
# Instead: backend_kwargs={"indexpath": ""}, or the .idx files deleted before the copy.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install cfgrib==0.9.15.1 eccodes==2.50.0 eccodeslib==2.50.0.33 xarray==2026.9.0 numpy==2.4.6
cat >write.py <<'P'
import sys, eccodes, numpy as np
with open(sys.argv[1], "wb") as file:
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    eccodes.codes_set(message, "dataDate", int(sys.argv[2])); eccodes.codes_set(message, "shortName", "2t")
    eccodes.codes_set_values(message, np.full(eccodes.codes_get(message, "numberOfValues"), float(sys.argv[3])))
    eccodes.codes_write(message, file)
P
cat >read.py <<'P'
import sys, xarray
options = {"backend_kwargs": {"indexpath": ""}} if sys.argv[1:] else {}
with xarray.open_dataset("latest.grib", engine="cfgrib", **options) as data:
    print(str(data.time.values)[:10], float(data.t2m.mean()), "K")
P
v/bin/python write.py first.grib 20241101 280; touch -d '2 hours ago' first.grib
v/bin/python write.py second.grib 20241102 290; touch -d '1 hour ago' second.grib
{
    cp -p first.grib latest.grib; echo "first: $(v/bin/python read.py 2>&1)"
    cp -p second.grib latest.grib; echo "second, cp -p: $(v/bin/python read.py 2>&1)"
    echo "second, no index: $(v/bin/python read.py none 2>&1)"
    cp second.grib latest.grib; echo "second, cp: $(v/bin/python read.py 2>/dev/null)"
} | tee out
diff - out <<'P'
first: 2024-11-01 280.0 K
second, cp -p: 2024-11-01 290.0 K
second, no index: 2024-11-02 290.0 K
second, cp: 2024-11-02 290.0 K
P
echo "as observed: cfgrib gives the values of a new file the date of the old one"
