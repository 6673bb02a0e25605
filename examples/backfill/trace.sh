#!/usr/bin/env bash
# One trace of 200 jobs on 16 emulated nodes, first in order of submission, then with backfill, as `wiglaf up --batch` sets it
# up: how long each takes, and how much of the nodes' time jobs have used. As root: examples/backfill/trace.sh [NODES [JOBS [SECONDS]]]
#
# Widths and times are drawn from a fixed seed. A job says that it takes so many minutes and sleeps for SECONDS for each, 0.2 unless given,
# so Slurm plans with what users say, as always, and nobody waits for an hour. Backfill looks every second here, not
# every 30, because all is that much faster.
set -euo pipefail
nodes=${1:-16} jobs=${2:-200} seconds=${3:-0.2}
wiglaf=${WIGLAF:-wiglaf}
folder=$(mktemp -d) && chmod 755 "$folder"
export WIGLAF_STATE=$folder/state
trap '"$wiglaf" down >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
cd "$folder"
awk -v nodes="$nodes" -v jobs="$jobs" 'BEGIN {
    seed = 1
    for (i = 0; i < jobs; i++) {
        # Most are narrow, some take half of the nodes or all but one.
        seed = (seed * 16807) % 2147483647; kind = seed % 10
        width = kind < 5 ? 1 + kind % 2 : kind < 8 ? int(nodes / 4) : kind < 9 ? int(nodes / 2) : nodes - 1
        seed = (seed * 16807) % 2147483647; minutes = 1 + seed % 12
        print width, minutes
    }
}' >trace
cat >job.sh <<'P'
#!/bin/sh
begin=$(date +%s%N)
sleep "$1"
echo "$begin $(date +%s%N) $SLURM_JOB_NUM_NODES" >"end/$SLURM_JOB_ID"
P
printf '[batch]\naccounting = false\n' >lab.toml
for scheduler in builtin backfill; do
    rm -rf end && mkdir end
    "$wiglaf" --file lab.toml up --nodes "$nodes" --no-pin --batch >/dev/null
    on_head() { "$wiglaf" exec -w node1 -- "$@"; }
    # So that all nodes see this folder.
    "$wiglaf" exec -- true
    sed -i "s,^SchedulerType=.*,SchedulerType=sched/$scheduler,; s/^SchedulerParameters=/&bf_interval=1,bf_max_job_test=1000,/" state/batch/slurm.conf
    on_head scontrol shutdown slurmctld
    while on_head pgrep -x slurmctld >/dev/null; do sleep 0.2; done
    "$wiglaf" up --batch >/dev/null
    # All of them are there before the first begins.
    on_head env seconds="$seconds" sh -c 'scontrol update PartitionName=batch State=DOWN
        while read -r width minutes; do
            sbatch -Q -o /dev/null -N "$width" -n "$width" -t "$minutes" job.sh "$(echo "$minutes $seconds" | awk "{ print \$1 * \$2 }")"
        done <trace
        scontrol update PartitionName=batch State=UP'
    while [ "$(find end -type f | wc -l)" -lt "$jobs" ]; do sleep 0.5; done
    cat end/* | awk -v nodes="$nodes" -v scheduler="$scheduler" '
        { if (!first || $1 < first) first = $1; if ($2 > last) last = $2; used += ($2 - $1) * $3 }
        END { printf "%s: %d jobs in %.1f s, utilisation %.3f\n", scheduler, NR, (last - first) / 1e9, used / (last - first) / nodes }'
    "$wiglaf" down >/dev/null
done | tee figures
awk '{ value[NR] = $NF } END { printf "backfill / order of submission: %.2f\n", value[2] / value[1] }' figures
