#!/usr/bin/env bash
# What: `spython recipe` of spython 0.3.14 (PyPI), which makes a recipe of Singularity/Apptainer of a Dockerfile, and
#   the reverse.
# Guess: what is built is the same: Docker gives each RUN a shell of its own, which starts in WORKDIR and has all ENV in
#   its environment; %post is one shell from its first line to its last. A converter knows that.
# Happens: ENV CFLAGS=... is a line CFLAGS=... in %post, without `export`: make and configure do not see it, and
#   compile with their own options. `RUN cd src && make` leaves %post in src for all that follows. The other way round
#   each line of %post is a RUN: `cd src` and `export CFLAGS=...` are lost before the next one. Nothing is said, and the
#   status is 0.
# Who meets it: who has an image for Docker and makes one for the cluster: the program has no -O3, and files are in
#   another folder.
# Instead: `export` in %post by hand, as in the third case below, and brackets, (cd src && make).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install spython==0.3.14
cd "$T"
mkdir work work/src
cat >work/src/makefile <<'P'
all: ; @echo "make: CFLAGS is '$(CFLAGS)'"
P
cat >Dockerfile <<P
FROM debian:12
WORKDIR $T/work
ENV CFLAGS=-O3
RUN cd src && make --no-print-directory
RUN basename "\$PWD"
P
cat >Singularity <<P
Bootstrap: docker
From: debian:12
%post
    export CFLAGS=-O3
    cd $T/work/src
    make --no-print-directory -C $T/work/src
    basename "\$PWD"
P
unset CFLAGS
as_docker() { # FILE [VARIABLE=VALUE]: each RUN by a shell of its own, in work, with ENV
    sed -n 's/^RUN //p' "$1" | while read -r command; do
        (cd work; env "${@:2}" sh -c "$command" </dev/null 2>&1) || true
    done
}
post() { sed -n '/^%post/,/^%environment/p' "$1" | grep -v '^%'; } # of a recipe
v/bin/spython recipe Dockerfile >made.def 2>said
v/bin/spython recipe Singularity >made.docker 2>>said
{
    echo "the Dockerfile"; as_docker Dockerfile CFLAGS=-O3
    echo "%post made of it"; post made.def | sh -e
    echo "with export"; post made.def | sed 's/^CFLAGS/export CFLAGS/' | sh -e
    echo "the recipe"; sed '1,/^%post/d' Singularity | sh -e
    echo "the Dockerfile made of it"; as_docker made.docker
} | tee out
diff - out <<'P'
the Dockerfile
make: CFLAGS is '-O3'
work
%post made of it
make: CFLAGS is ''
src
with export
make: CFLAGS is '-O3'
src
the recipe
make: CFLAGS is '-O3'
src
the Dockerfile made of it
make: CFLAGS is ''
work
P
[ ! -s said ] || exit 1
echo "as observed: ENV is not exported in %post, and cd stays there"
