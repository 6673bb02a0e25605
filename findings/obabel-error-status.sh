#!/usr/bin/env bash
# What: the exit status of obabel after errors; Debian openbabel 3.1.1+dfsg-9+b3.
# Guess: another one than 0, as after a format that it does not know.
# Happens: 0 where the input is not there or cannot be read, and where one of several is not: '0 molecules converted', and an
#   empty file takes the place of the output that was there. The error is on stderr for those who read it.
# Who meets it: `obabel in.xyz -O out.mol && next` in job scripts and Makefiles: the next program has an empty file, and the old
#   one is gone.
# Instead: `[ -s out.mol ]`, and the number in 'N molecules converted'.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q openbabel=3.1.1+dfsg-9+b3 libopenbabel7=3.1.1+dfsg-9+b3 libinchi1 libmaeparser1 libboost-iostreams1.74.0 \
    libgomp1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries BABEL_LIBDIR=$libraries/openbabel/3.1.1 BABEL_DATADIR=$T/usr/share/openbabel/3.1.1
printf '3\nwater\nO 0 0 0\nH 0 0 0.96\nH 0.9 0 -0.3\n' >water.xyz
head -n 4 water.xyz >cut.xyz
run() { # name, arguments
    echo 'the old one' >out.mol; status=0
    usr/bin/obabel "${@:2}" >/dev/null 2>words || status=$?
    content='a molecule'
    if [ ! -s out.mol ]; then content=empty; elif grep -q 'old one' out.mol; then content='the old one'; fi
    echo "$1: status $status, $(grep -o '[0-9]* molecules* converted' words || echo 'usage'), out.mol: $content"
}
{
    run 'right' water.xyz -O out.mol
    run 'a format that it does not know' water.xyz -onosuch -O out.mol
    run 'an input that is not there' wafer.xyz -O out.mol
    run 'an input that is cut off' cut.xyz -O out.mol
    run 'one of two is not there' water.xyz wafer.xyz -O out.mol
} | tee out
diff - out <<'P'
right: status 0, 1 molecule converted, out.mol: a molecule
a format that it does not know: status 1, usage, out.mol: the old one
an input that is not there: status 0, 0 molecules converted, out.mol: empty
an input that is cut off: status 0, 0 molecules converted, out.mol: empty
one of two is not there: status 0, 1 molecule converted, out.mol: a molecule
P
echo "as observed: obabel exits with 0 after errors, and empties the output"
