#!/usr/bin/env bash
# What: csvsort, csvjoin and csvsql of csvkit 2.2.0 (PyPI, with agate 1.14.2) and ids of Slurm's job arrays, as of
#   `sacct -P` or `squeue -o %i`.
# Guess: csvsort puts lines in order and leaves what is in them; 12_3, task 3 of the array 12, is a text, and equal to
#   12_3 alone.
# Happens: where all ids of a file are of arrays, the column is one of numbers, and `_` is dropped as Python's Decimal
#   drops it: 12_3 is 123. So 1_210 and 12_10 are one job, 1210: csvjoin gives each one the figures of the other, too,
#   GROUP BY makes one of two, and csvsort writes 1210 twice. An elapsed time of 1-02:00:00 becomes "1 day, 2:00:00".
#   Nothing is said, status 0. With one id such as 12_3.batch in the column all ids stay as they are, so that the
#   table of one day is right and that of the next is wrong.
# Who meets it: who sorts, joins or sums accounts of arrays, or names of runs such as 2024_01, with csvkit.
# Instead: -I (--no-inference). csvcut, csvgrep and csvformat leave ids as they are without it.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install csvkit==2.2.0 agate==1.14.2
cd "$T"
export PATH="$T/v/bin:$PATH"
cat >jobs.csv <<'P'
JobID,State
1_210,FAILED
12_10,COMPLETED
12_3,COMPLETED
P
cat >hours.csv <<'P'
JobID,Hours
1_210,5
12_10,7
12_3,1
P
{ cat jobs.csv; echo 12_3.batch,COMPLETED; } >steps.csv
{ echo Elapsed; echo 1-02:00:00; echo 0-11:00:00; } >elapsed.csv
show() { echo "$1: $("${@:2}" | tail -n +2 | tr '\n' ' ')"; }
per_job='select JobID, sum(Hours) from hours group by JobID'
{
    show "csvsort" csvsort -c JobID jobs.csv
    show "csvsort -I" csvsort -I -c JobID jobs.csv
    show "csvsort with a step" csvsort -c JobID steps.csv
    show "csvjoin" csvjoin -c JobID jobs.csv hours.csv
    show "csvjoin -I" csvjoin -I -c JobID jobs.csv hours.csv
    show "csvsql" csvsql --query "$per_job" hours.csv
    show "csvcut" csvcut -c JobID jobs.csv
    show "csvsort of times" csvsort elapsed.csv 2>/dev/null
} | tee out
diff - out <<'P'
csvsort: 123,COMPLETED 1210,FAILED 1210,COMPLETED 
csvsort -I: 12_10,COMPLETED 12_3,COMPLETED 1_210,FAILED 
csvsort with a step: 12_10,COMPLETED 12_3,COMPLETED 12_3.batch,COMPLETED 1_210,FAILED 
csvjoin: 1210,FAILED,5 1210,FAILED,7 1210,COMPLETED,5 1210,COMPLETED,7 123,COMPLETED,1 
csvjoin -I: 1_210,FAILED,5 12_10,COMPLETED,7 12_3,COMPLETED,1 
csvsql: 123.0,1.0 1210.0,12.0 
csvcut: 1_210 12_10 12_3 
csvsort of times: 11:00:00 "1 day, 2:00:00" 
P
echo "as observed: 12_10 and 1_210 are one job, 1210"
