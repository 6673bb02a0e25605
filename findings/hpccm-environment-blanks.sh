#!/usr/bin/env bash
# What: environment(variables={...}) of hpccm with a blank in a value; PyPI hpccm 26.5.0.
# Guess: a dictionary of Python keeps a name and its value together: CFLAGS is '-O2 -g' in the container.
# Happens: values are written without quotes: `ENV CFLAGS=-O2 -g` and `export CFLAGS=-O2 -g`. In Docker's file a second
#   word with a `=` is a variable of its own, so MPIRUN_ARGS='--mca btl=self,tcp' is `--mca`, and there is a variable
#   `btl`. As a shell script (--format bash) likewise, and Singularity's %environment has those lines too.
# Who meets it: compiler flags, and arguments for mpirun, of a container. Where no word gives an error, the container
#   builds, with the first word for the value.
# Instead: quotes in the value: environment(variables={'CFLAGS': '"-O2 -g"'}).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install hpccm==26.5.0
cd "$T"
cat >recipe.py <<'E'
Stage0 += baseimage(image='debian:12', _distro='ubuntu22')
Stage0 += environment(variables={'MPIRUN_ARGS': '--mca btl=self,tcp', 'TITLE': 'two words', 'QUOTED': '"two words"'})
E
env/bin/hpccm --version
{
    env/bin/hpccm --recipe recipe.py --format docker | grep '=' | sed 's/^/docker: /'
    env/bin/hpccm --recipe recipe.py --format singularity | grep export | sort -u | sed 's/^ */singularity: /'
    env/bin/hpccm --recipe recipe.py --format bash >script
    result=0
    env -i PATH="$PATH" bash -c '. ./script >/dev/null 2>words; env' >variables || result=$?
    grep -E '^(MPIRUN_ARGS|btl|TITLE|QUOTED)=' variables | sort | sed 's/^/bash: /'
    echo "status $result"
} | tee out
diff - out <<'E'
docker: ENV MPIRUN_ARGS=--mca btl=self,tcp \
docker:     QUOTED="two words" \
docker:     TITLE=two words
singularity: export MPIRUN_ARGS=--mca btl=self,tcp
singularity: export QUOTED="two words"
singularity: export TITLE=two words
bash: MPIRUN_ARGS=--mca
bash: QUOTED=two words
bash: TITLE=two
bash: btl=self,tcp
status 0
E
echo "as observed: hpccm writes values with blanks without quotes"
