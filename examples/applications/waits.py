#!/usr/bin/env python3
"""One table of profiles of `wiglaf profile --json`, named PROGRAM.TRANSPORT.ROUND.json: where the wall time goes.

Seconds are medians of the rounds. Computing is the mean rank's; waiting is what it computes less than the rank that
computes longest; the rest of the wall time is the most that a faster network gains (docs/profile.md). The calls are
those in which the mean rank is longest, with their seconds and how many there are of each.
"""

import collections
import json
import pathlib
import sys
from statistics import median

CALLS = 4


def main(paths):
    rounds = collections.defaultdict(list)
    for path in map(pathlib.Path, paths):
        program, transport, _ = path.stem.rsplit(".", 2)
        rounds[program, transport].append(json.loads(path.read_text()))
    print("| program | nodes | transport | wall s | computing s | waiting s | network at most s | longest calls: s, calls a rank |")
    print("|---|---|---|---|---|---|---|---|")
    for (program, transport), profiles in sorted(rounds.items()):
        seconds, counts = collections.defaultdict(list), {}
        for profile in profiles:
            ranks = profile["ranks"]
            took, made = collections.Counter(), collections.Counter()
            for calls in (calls for rank in ranks for calls in rank["calls"]):
                took[calls["call"]] += calls["ns"] / 1e9 / len(ranks)
                made[calls["call"]] += calls["calls"] / len(ranks)
            for call in took:
                seconds[call].append(took[call])
            counts = made
        longest = sorted(seconds, key=lambda call: -median(seconds[call]))[:CALLS]
        shown = ", ".join(f"{call} {median(seconds[call]):.2f} ({counts[call]:.0f})" for call in longest)
        summaries = [profile["summary"] for profile in profiles]
        wall = median(one["wall_s"] for one in summaries)
        computing = median(one["wall_s"] * (1 - one["mpi_share"]) for one in summaries)
        waiting = median(one["wall_s"] * one["waiting_share"] for one in summaries)
        network = median(one["wall_s"] * one["network_share"] for one in summaries)
        nodes = len({rank["host"] for rank in profiles[0]["ranks"]})
        print(f"| {program} | {nodes} | {transport} | {wall:.2f} | {computing:.2f} | {waiting:.2f} | {network:.2f} | {shown} |")


if __name__ == "__main__":
    main(sys.argv[1:])
