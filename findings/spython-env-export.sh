#!/usr/bin/env bash
# What: `spython recipe` of spython 0.3.14 (PyPI), which makes a recipe of Singularity/Apptainer of a Dockerfile: ENV.
# Guess: what RUN has in its environment, %post has in its own.
# Happens: ENV CFLAGS=... is a line CFLAGS=... in %post, without `export`: make and configure do not see it, and
#   compile with their own options. Nothing is said, and the status is 0. (%post was run by a shell here, as the one
#   that builds a container runs it.)
# Who meets it: who has an image for Docker and makes one for the cluster: the program has no -O3.
# Instead: `export` in %post by hand, as in the third case below.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install spython==0.3.14
cd "$T"
cat >makefile <<'P'
all: ; @echo "make: CFLAGS is '$(CFLAGS)'"
P
cat >Dockerfile <<'P'
FROM debian:12
ENV CFLAGS=-O3
RUN make --no-print-directory
P
unset CFLAGS
post() { sed -n '/^%post/,/^%environment/p' made.def | grep -v '^%'; }
status=0
v/bin/spython recipe Dockerfile >made.def 2>said || status=$?
{
    echo "spython: status $status"
    echo "RUN with ENV: $(CFLAGS=-O3 sh -c "$(sed -n 's/^RUN //p' Dockerfile)")"
    echo "%post made of it: $(post | sh -e)"
    echo "with export: $(post | sed 's/^CFLAGS/export CFLAGS/' | sh -e)"
} | tee out
diff - out <<'P'
spython: status 0
RUN with ENV: make: CFLAGS is '-O3'
%post made of it: make: CFLAGS is ''
with export: make: CFLAGS is '-O3'
P
[ ! -s said ] || exit 1
echo "as observed: ENV is not exported in %post"
