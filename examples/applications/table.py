#!/usr/bin/env python3
"""One table of several reports of `wiglaf compare --json`: a row for each program.

Seconds are medians of the rounds: wall time of the longest rank, processor time of all ranks together by the number of
ranks, and what is left of the wall time. The ratio is Wiglaf's wall time by the least of the others'.
"""

import json
import math
import pathlib
import statistics
import sys


def cells(report):
    """Median wall, processor time and the rest, by way."""
    ranks = report["places"][0]["ranks"]
    for index, way in enumerate(report["ways"]):
        runs = [run for run in report["runs"] if run["way"] == index]
        if runs:
            wall = statistics.median(run["wall_s"] for run in runs)
            cpu = statistics.median((run["user_s"] + run["system_s"]) / ranks for run in runs)
            yield way["word"], (wall, cpu, wall - cpu)


def main(paths):
    ratios = []
    print("| program | nodes | transport | wall s | CPU s a rank | wall - CPU s | wall by best of TCP |")
    print("|---|---|---|---|---|---|---|")
    for path in map(pathlib.Path, paths):
        report = json.loads(path.read_text())
        ways = dict(cells(report))
        best = min((wall for word, (wall, *_) in ways.items() if not word.startswith("wiglaf")), default=math.nan)
        for word, (wall, cpu, rest) in ways.items():
            ratio = wall / best
            if word == "wiglaf":
                ratios.append(ratio)
            nodes = report["places"][0]["nodes"]
            print(f"| {path.stem} | {nodes} | {word} | {wall:.2f} | {cpu:.2f} | {rest:.2f} | {ratio:.2f} |")
        for failure in report["failures"]:
            print(f"{path.stem}: a run failed: {failure['reason']}", file=sys.stderr)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\ngeometric mean of Wiglaf's ratios: {mean:.2f}, worst {max(ratios):.2f}, {len(ratios)} programs")


if __name__ == "__main__":
    main(sys.argv[1:])
