#!/usr/bin/env bash
# What: an option of a building block or primitive that hpccm does not have; PyPI hpccm 26.5.0.
# Guess: an error, as for any Python function (TypeError: unexpected keyword argument).
# Happens: it is dropped, with status 0 and without a word. openmpi(verison='4.1.8') is Open MPI 4.0.5, and
#   shell(command='...') and label(meta={...}), of which the right names are commands and metadata, are no line at all.
#   Options that only a newer hpccm has are dropped by an older one likewise.
# Who meets it: recipes for a container with a given MPI: it builds, runs, and has another version, or a step less.
# Instead: compare `hpccm --recipe FILE | grep version` with what was asked for, and count the RUN lines.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install hpccm==26.5.0
cd "$T"
cat >wrong.py <<'E'
Stage0 += baseimage(image='debian:12', _distro='ubuntu22')
Stage0 += openmpi(verison='4.1.8', cuda=False, infinband=False)
Stage0 += shell(command=['make -C /solver install'])
Stage0 += label(meta={'solver': '7'})
E
sed 's/verison/version/; s/infinband/infiniband/; s/command=/commands=/; s/meta=/metadata=/' wrong.py >right.py
env/bin/hpccm --version
{
    for recipe in wrong right; do
        result=0
        env/bin/hpccm --recipe $recipe.py >Dockerfile 2>words || result=$?
        echo "$recipe: status $result, words $(wc -l <words)"
        grep -oE '^# OpenMPI.*|--with[a-z]*-verbs|^RUN make.*|^LABEL.*' Dockerfile
    done
} | tee out
diff - out <<'E'
wrong: status 0, words 0
# OpenMPI version 4.0.5
--with-verbs
right: status 0, words 0
# OpenMPI version 4.1.8
--without-verbs
RUN make -C /solver install
LABEL solver=7
E
echo "as observed: hpccm drops options that it does not have"
