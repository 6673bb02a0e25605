#!/usr/bin/env bash
# What: `snakemake --config NAME=VALUE` with values that name a sample, a run or a version; PyPI snakemake 9.27.1.
# Guess: the workflow gets the value as it was typed, or as a configuration file has it; and quotes make a string of it.
# Happens: what Python's int() or float() takes is a number. 2024_01 is 202401, 007 is 7, 12E5 is 1200000.0 and 3.10 is
#   3.1. Quotes inside the value are taken away first and do not help. The file has other rules: 010 is 8 there, and 10
#   on the command line.
# Who meets it: `--config sample=2024_01`, where a rule's path is made of config["sample"]: it reads and writes files of
#   202401. `run=007` and `run=7` write one file; well plates' 12E5 and 1200000 do, too; `module load gcc/3.10` is 3.1.
# Instead: a file with quoted strings and --configfile, or a letter before the digits.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install snakemake==9.27.1
cat >Snakefile <<'P'
rule table:
    output: f"result-{config['run']}.txt"
    shell: "echo {config[run]} > {output}"
P
snakemake() { v/bin/snakemake --quiet all --cores 1 "$@" >words 2>&1 || { cat words; exit 1; }; }
v/bin/snakemake --version
{
    for value in a7 7 007 2024_01 12E5 3.10 '"007"' 010; do
        snakemake --config "run=$value"
        echo "--config run=$value: $(ls result-*)"; rm result-*
    done
    for value in 010 '"010"' '"2024_01"'; do
        echo "run: $value" >file.yaml
        snakemake --configfile file.yaml
        echo "file with run: $value: $(ls result-*)"; rm result-*
    done
} | tee out
diff - out <<'P'
--config run=a7: result-a7.txt
--config run=7: result-7.txt
--config run=007: result-7.txt
--config run=2024_01: result-202401.txt
--config run=12E5: result-1200000.0.txt
--config run=3.10: result-3.1.txt
--config run="007": result-7.txt
--config run=010: result-10.txt
file with run: 010: result-8.txt
file with run: "010": result-010.txt
file with run: "2024_01": result-2024_01.txt
P
echo "as observed: --config makes numbers of names"
