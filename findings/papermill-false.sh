#!/usr/bin/env bash
# What: `papermill -p use_gpu false` of the command line; PyPI papermill 2.7.0, ipykernel 7.4.0.
# Guess: the boolean False, as from `-y 'use_gpu: false'` and its parameter files, which are YAML; its README says that
#   'values that look like booleans or numbers will be interpreted as such'.
# Happens: the text 'false', which is true for Python: `if use_gpu:` runs. So it is for true, no and off; True and False
#   as Python writes them are booleans. Nothing is logged, also where the notebook's default is a boolean.
# Who meets it: jobs that run one notebook with many parameters, from a shell script: what they switch off is on, in all
#   of the runs, and the report says 'false'.
# Instead: `-p use_gpu False`, or -y or -f, which are YAML.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore TMPDIR=$T HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install papermill==2.7.0 ipykernel==7.4.0
cat >study.ipynb <<'P'
{"nbformat": 4, "nbformat_minor": 5,
 "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
 "cells": [
  {"cell_type": "code", "execution_count": null, "id": "a", "metadata": {"tags": ["parameters"]}, "outputs": [],
   "source": ["use_gpu = True"]},
  {"cell_type": "code", "execution_count": null, "id": "b", "metadata": {}, "outputs": [],
   "source": ["print(f'{use_gpu!r}:', 'on' if use_gpu else 'off')"]}]}
P
run() {
    status=0; v/bin/papermill --no-progress-bar study.ipynb out.ipynb "$@" >log 2>&1 || status=$?
    said=$(v/bin/python -c 'import json
print(json.load(open("out.ipynb"))["cells"][-1]["outputs"][0]["text"][0].strip())')
    echo "$*: status $status, $said, $(grep -ci use_gpu log || true) lines of the log"
}
{
    for word in False false no 0; do run -p use_gpu $word; done
    run -y 'use_gpu: false'
} | tee out
diff - out <<'P'
-p use_gpu False: status 0, False: off, 0 lines of the log
-p use_gpu false: status 0, 'false': on, 0 lines of the log
-p use_gpu no: status 0, 'no': on, 0 lines of the log
-p use_gpu 0: status 0, 0: off, 0 lines of the log
-y use_gpu: false: status 0, False: off, 0 lines of the log
P
echo "as observed: false is a text, and true, for papermill -p"
