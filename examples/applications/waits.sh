#!/usr/bin/env bash
# What programs of Debian wait for, by call of MPI: each runs over TCP and over Wiglaf, in turn, under wiglaf profile. As root, with an
# emulated cluster:
#   wiglaf up --nodes 2 && examples/applications/waits.sh 2 3 waits-2
# Arguments: nodes, rounds, a new folder for inputs and profiles, and a pattern for those programs alone whose names match it.
set -euo pipefail
nodes=${1-2} rounds=${2-3} out=${3-waits} only=${4-.}
# shellcheck source=examples/applications/programs.sh
source "$(dirname "$0")/programs.sh"

profile() { # name, what to check (not used), program and arguments
    local name=$1 round transport
    shift 2
    local options=(-n "$nodes" -x OMP_NUM_THREADS=1)
    # Its windows need it on Open MPI 4.
    [[ $name != nwchem* ]] || options+=(-x OMPI_MCA_osc=pt2pt)
    echo "== $name, $nodes nodes, $rounds rounds"
    for round in $(seq "$rounds"); do
        for transport in tcp wiglaf; do
            "$wiglaf" profile "${options[@]}" --transport $transport --json "$name.$transport.$round.json" -- "$@" >"$name.txt" 2>&1 ||
                { tail -n 20 "$name.txt"; return 1; }
        done
    done
}
each profile
python3 "$here/waits.py" ./*.json | tee waits.md
