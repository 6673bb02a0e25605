#!/usr/bin/env bash
# Programs of Debian over every transport, in interleaved rounds, and one table of them all. As root, with an emulated cluster:
#   wiglaf up --nodes 4 && examples/applications/table.sh 2 5 out-2 && examples/applications/table.sh 4 5 out-4
#   wiglaf down && wiglaf up --nodes 4 --rate 1gbit && examples/applications/table.sh 4 5 out-4-1gbit
# Arguments: nodes, rounds, a new folder for inputs and reports, and a pattern for those programs alone whose names match it. It takes
# the Debian packages that it names. TRANSPORTS=tcp,ucx,wiglaf, for instance, leaves out one that takes long.
set -euo pipefail
nodes=${1-2} rounds=${2-5} out=${3-programs} only=${4-.}
# shellcheck source=examples/applications/programs.sh
source "$(dirname "$0")/programs.sh"

compare() { # name, check or -, program and arguments
    local name=$1 check=$2
    shift 2
    local options=(--nodes "$nodes" --repeats "$rounds" -x OMP_NUM_THREADS=1 --json "$name.json")
    local transports=${TRANSPORTS-}
    if [[ $name == nwchem* ]]; then
        # Its windows need it on Open MPI 4, and over UCX it does not end then.
        options+=(-x OMPI_MCA_osc=pt2pt)
        transports=${transports:-tcp,ofi-tcp,wiglaf} transports=${transports/ucx,/}
    fi
    [ -z "$transports" ] || options+=(--transports "$transports")
    [ "$check" = - ] || options+=(--check "$check")
    echo "== $name, $nodes nodes, $rounds rounds"
    "$wiglaf" compare "${options[@]}" -- "$@" >"$name.txt" || { tail -n 20 "$name.txt"; return 1; }
}
each compare
python3 "$here/table.py" ./*.json | tee table.md
