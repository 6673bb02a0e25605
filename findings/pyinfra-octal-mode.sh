#!/usr/bin/env bash
# What: `mode=` of the operations on files in pyinfra 3.10.0 (PyPI).
# Guess: mode=0o640 is rw-r-----, as for Python's own os.chmod and os.open. The documentation has 'permissions of the
#   files as an integer, eg: 755'.
# Happens: the number's decimal digits are taken for the mode. 0o640 is 416 for Python, so the file gets 416, r----xrw-:
#   others may write it. 0o644 is 420, r---w----, and 0o400 is 256, --w-r-xrw-: all may read and write a key that was
#   for the owner alone. The status is 0, and nothing is said. 0o600 (384) and 0o755 (493), whose digits are no mode, end
#   the run with an exception.
# Who meets it: who administers PCs with Python: daemons cannot read their files, and what was to be closed is open.
# Instead: a text, mode="640" or "0o640", or the number 640.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install pyinfra==3.10.0
cd "$T"
deploy() { # modes: a file with each of them
    local result=0 mode
    echo "from pyinfra.operations import files" >deploy.py
    for mode in "$@"; do echo "files.file(path='$T/${mode//\"/}', mode=$mode)" >>deploy.py; done
    v/bin/pyinfra -y @local deploy.py </dev/null >said 2>&1 || result=$?
    for mode in "$@"; do
        echo "mode=$mode: $(stat -c '%a %A' "${mode//\"/}" 2>/dev/null || echo no file), status $result"
    done
}
{
    deploy 0o640 0o644 0o400 640 '"0640"' '"0o660"'
    deploy 0o600
} | tee out
diff - out <<'P'
mode=0o640: 416 -r----xrw-, status 0
mode=0o644: 420 -r---w----, status 0
mode=0o400: 256 --w-r-xrw-, status 0
mode=640: 640 -rw-r-----, status 0
mode="0640": 640 -rw-r-----, status 0
mode="0o660": 660 -rw-rw----, status 0
mode=0o600: no file, status 1
P
echo "as observed: mode=0o640 is 416"
