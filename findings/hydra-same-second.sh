#!/usr/bin/env bash
# What: programs with @hydra.main that start in one second; PyPI hydra-core 1.3.8.
# Guess: each run has a folder of its own, which is what Hydra's documentation says it is for; or an error.
# Happens: the folder's name is the time in seconds, and one that is there is used. Runs of one second share it: results
#   and .hydra/config.yaml are of the last one, the log has the lines of all, and all exit with 0. Likewise with -m.
# Who meets it: an array of Slurm, whose tasks start together on all PCs with one file system, or `srun` or mpirun with
#   a program of Hydra: of 100 runs a few folders are left, and a config that does not belong to the result beside it.
# Instead: 'hydra.run.dir=outputs/${oc.env:SLURM_JOB_ID}' (it differs for each task of an array) on the command line or
#   in the config; SLURM_PROCID as well for the tasks of one job.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install hydra-core==1.3.8
cat >program.py <<'P'
import hydra, pathlib
from hydra.core.hydra_config import HydraConfig
@hydra.main(version_base=None)
def main(config):
    folder = pathlib.Path(HydraConfig.get().runtime.output_dir)
    with open(folder / "log", "a") as log: log.write(f"alpha {config.alpha}\n")
    (folder / f"result-{config.alpha}").touch()
main()
P
v/bin/python program.py +alpha=0        # the first one compiles
start() { # options
    for _ in $(seq 20); do      # until all of them are in one second
        rm -rf outputs runs; n=0
        for SLURM_JOB_ID in 101 102 103; do export SLURM_JOB_ID; v/bin/python program.py +alpha=$((n += 1)) "$@" & done
        for job in $(jobs -p); do wait "$job"; done
        [ -d outputs ] && [ "$(find outputs -name log | wc -l)" -gt 1 ] || break
    done
    find . -name log | sort | while read -r log; do
        echo "a folder: $(wc -l <"$log") runs, $(find "${log%/*}" -name 'result-*' | wc -l) results," \
            "$(cat "${log%/*}/.hydra/overrides.yaml" | wc -l) config"
    done
}
{
    echo "by default"; start
    echo "by job"; start 'hydra.run.dir=runs/${oc.env:SLURM_JOB_ID}'
} | tee out
diff - out <<'P'
by default
a folder: 3 runs, 1 results, 1 config
by job
a folder: 1 runs, 1 results, 1 config
a folder: 1 runs, 1 results, 1 config
a folder: 1 runs, 1 results, 1 config
P
echo "as observed: runs of one second share a folder, which has the configuration of one"
