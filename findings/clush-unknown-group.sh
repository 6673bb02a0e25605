#!/usr/bin/env bash
# What: groups with a misspelled name in clush and nodeset, with the groups in a YAML file; PyPI ClusterShell 1.9.1.
# Guess: an error, as for a misspelled source of groups (`@lba:drained`).
# Happens: a group that is not there is an empty set, without a word and with status 0. `clush -w @all -x @drianed` runs the
#   command on all nodes, the drained ones, too. `nodeset -c @nosuch` is 0. Only where no node is left at all does clush stop.
# Who meets it: those who leave out the file server or a PC in use from a reboot or an upgrade, by a group whose name is
#   mistyped, or was changed in the file.
# Instead: `nodeset -l | grep -qx @drained` first, or `nodeset -f @all -x @drained` looked at before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install ClusterShell==1.9.1
mkdir groups
cat >groups/lab.yaml <<'P'
lab:
  all: pc[1-4]
  drained: pc3
P
printf '[Main]\ndefault: lab\nautodir: %s\n' "$T/groups" >groups.conf
export CLUSTERSHELL_CFGDIR=$T
run() { # command
    status=0; words=$("$@" 2>&1 | sort) || status=$?
    echo "$*: status $status: $(grep -v '^Usage' <<<"$words" | xargs)"
}
PATH=$T/v/bin:$PATH
{
    for group in drained drianed lab:drianed lba:drained; do run clush -qNR exec -w @all -x @$group echo %h; done
    run nodeset -f @all -x @drained
    run nodeset -f @all -x @drianed
    run nodeset -c @drianed
    run clush -qNR exec -w @drianed echo %h
} | tee out
diff - out <<'P'
clush -qNR exec -w @all -x @drained echo %h: status 0: pc1 pc2 pc4
clush -qNR exec -w @all -x @drianed echo %h: status 0: pc1 pc2 pc3 pc4
clush -qNR exec -w @all -x @lab:drianed echo %h: status 0: pc1 pc2 pc3 pc4
clush -qNR exec -w @all -x @lba:drained echo %h: status 1: clush: Unknown group source: lba
nodeset -f @all -x @drained: status 0: pc[1-2,4]
nodeset -f @all -x @drianed: status 0: pc[1-4]
nodeset -c @drianed: status 0: 0
clush -qNR exec -w @drianed echo %h: status 2: clush: error: No node to run on.
P
echo "as observed: a group that is not there excludes nothing, and nothing is said"
