#!/usr/bin/env bash
# What: ENTRYPOINT and CMD in `spython recipe Dockerfile`, spython 0.3.14 (PyPI): the %runscript of
#   Singularity/Apptainer.
# Guess: each text of ["show", "two words"] is one argument, as in Docker; CMD alone is the command; and arguments of
#   `apptainer run IMAGE ...` take the place of CMD, as those of `docker run` do.
# Happens: the texts are joined with blanks and not quoted, so that "two words" is two arguments, and `*` or `$` in one
#   is the shell's. CMD alone gets /bin/bash before it: `exec /bin/bash cat run.in`, which ends with 126. Arguments come
#   behind those of CMD, which stay. The recipe is made with status 0, and nothing is said.
# Who meets it: who takes an image with a default input, CMD ["default.in"], to the cluster: `apptainer run IMAGE
#   mine.in` computes default.in.
# Instead: write %runscript by hand, with quotes, and "${@:-default.in}" for a CMD.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install spython==0.3.14
cd "$T"
printf '#!/bin/sh\nprintf "<%%s> " "$@"\n' >show && chmod +x show
try() { # ENTRYPOINT, CMD, arguments of `apptainer run`
    echo 'FROM debian:12' >Dockerfile
    [ -z "$1" ] || echo "ENTRYPOINT $1" >>Dockerfile
    [ -z "$2" ] || echo "CMD $2" >>Dockerfile
    v/bin/spython recipe Dockerfile >made.def 2>>said
    sed -n '/^%runscript/,/^%startscript/p' made.def | grep -v '^%' >runscript
    run "${@:3}"
}
run() { # arguments of the runscript
    local result=0
    PATH="$T:$PATH" sh runscript "$@" >got 2>/dev/null || result=$?
    echo "$(cat runscript) -> $(cat got)status $result"
}
echo -n 'the input ' >run.in
# shellcheck disable=SC2016 # the runscript's shell expands them
{
    try '["show", "--title", "two words"]' ''
    try '["show"]' '["default.in"]' mine.in
    try '' '["cat", "run.in"]'
    echo 'by hand'
    echo 'exec show --title "two words" "$@"' >runscript; run
    echo 'exec show "${@:-default.in}"' >runscript; run; run mine.in
    echo 'exec cat run.in' >runscript; run
} | tee out
diff - out <<'P'
exec show --title two words "$@" -> <--title> <two> <words> status 0
exec show default.in "$@" -> <default.in> <mine.in> status 0
exec /bin/bash cat run.in "$@" -> status 126
by hand
exec show --title "two words" "$@" -> <--title> <two words> status 0
exec show "${@:-default.in}" -> <default.in> status 0
exec show "${@:-default.in}" -> <mine.in> status 0
exec cat run.in -> the input status 0
P
[ ! -s said ] || exit 1
echo "as observed: quotes and CMD of a Dockerfile are lost"
