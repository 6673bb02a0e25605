#!/usr/bin/env bash
# What: a misspelled option of obabel, as `--gne3d`; Debian openbabel 3.1.1+dfsg-9+b3.
# Guess: an error, as after a misspelled format.
# Happens: it is dropped: '1 molecule converted', status 0, and each atom of a molecule from SMILES is at 0 0 0. The spelling
#   --minimise of --minimize is one of those.
# Who meets it: structures made for MD or quantum chemistry in a loop; the next program may take atoms on one spot.
# Instead: a look for other coordinates than 0 in the output.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q openbabel=3.1.1+dfsg-9+b3 libopenbabel7=3.1.1+dfsg-9+b3 libinchi1 libmaeparser1 libboost-iostreams1.74.0 \
    libgomp1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries BABEL_LIBDIR=$libraries/openbabel/3.1.1 BABEL_DATADIR=$T/usr/share/openbabel/3.1.1
run() { # option
    status=0
    usr/bin/obabel -:CCO -O out.xyz "$@" 2>words || status=$?
    zero=$(awk 'NR > 2 && $2 == 0 && $3 == 0 && $4 == 0' out.xyz | wc -l)
    echo "$*: status $status, $(cat words), $(head -n 1 out.xyz) atoms, $zero at 0 0 0"
}
{ run -h --gen3d; run -h --gne3d; run -h --gen3d --minimise; } | tee out
diff - out <<'P'
-h --gen3d: status 0, 1 molecule converted, 9 atoms, 0 at 0 0 0
-h --gne3d: status 0, 1 molecule converted, 9 atoms, 9 at 0 0 0
-h --gen3d --minimise: status 0, 1 molecule converted, 9 atoms, 0 at 0 0 0
P
echo "as observed: obabel drops options that it does not know"
