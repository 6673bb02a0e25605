#!/usr/bin/env python3
"""The stages of a GAMESS run for HCNO, each with its wall and CPU time, on several numbers of nodes.

INT and TRANSF are those of ../transformation, SCF and CI those of NWChem. See README.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCHEMA = "wiglaf-stages 1"
STAGES = ["INT", "SCF", "TRANSF", "CI"]
# Phases of ../transformation that make a stage.
INT = ["integrals"]
TRANSF = ["sort 1", "half 1", "sort 2", "half 2"]
# Numbers of nodes may differ by the first, programs by the second.
NODES_MAX = 1e-8
CODES_MAX = 1e-6
# Open MPI 4 takes NWChem's windows with this.
WINDOWS = "OMPI_MCA_osc=pt2pt"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="1,2,3", help="numbers of nodes [1,2,3]")
    parser.add_argument("--transports", default="tcp,wiglaf", help="who carries MPI [tcp,wiglaf]")
    parser.add_argument("--repeats", type=int, default=1, help="rounds; medians are shown [1]")
    parser.add_argument("--wiglaf", default="wiglaf", help="the command [wiglaf]")
    parser.add_argument("--program", default=ROOT / "target/transformation/transformation", help="../transformation, built")
    parser.add_argument("--ci", default=HERE / "hcno.nw", help="NWChem's input")
    parser.add_argument("--pyscf", metavar="PYTHON", help="compute the reference by this Python, which has PySCF")
    parser.add_argument("--json", metavar="FILE", help="write all runs")
    parser.add_argument("--judge", metavar="FILE", nargs="+", help="run nothing: judge files that --json wrote, as one")
    return parser.parse_args()


def ran(command, folder):
    """What a command said; it ends the whole where it failed."""
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no words").splitlines()[-1]
        sys.exit(f"stages: `{' '.join(map(str, command))}` failed with status {done.returncode}: {last}")
    return done.stdout


def transformed(args, nodes, transport, folder):
    """INT and TRANSF, and the energies on the way."""
    remote = ["--remote", "wiglaf"] if nodes > 1 else ["--remote", "none"]
    start = [args.wiglaf, "run", "-n", nodes, "--transport", transport, "--", Path(args.program).resolve()]
    said = json.loads(ran(start + remote + ["--json", HERE.parent / "transformation/hcno.nw"], folder))
    stages = {}
    for stage, names in (("INT", INT), ("TRANSF", TRANSF)):
        ranks = [[phase for phase in rank["phases"] if phase["name"] in names] for rank in said["ranks"]]
        # All ranks begin a phase together and wait for each other at its end.
        wall = max(sum(phase["wall_s"] + phase["wait_s"] for phase in rank) for rank in ranks)
        cpu = sum(phase["cpu_s"] for rank in ranks for phase in rank) / len(ranks)
        stages[stage] = {"wall_s": wall, "cpu_s": cpu}
    return stages, {"scf": said["scf_hartree"], "mp2": said["mp2_correlation_hartree"]}


def found(pattern, text, what):
    last = re.findall(pattern, text)
    if not last:
        sys.exit(f"stages: NWChem told no {what}; run it alone with `wiglaf run -n 1 -- nwchem.openmpi hcno.nw`")
    return last


def nwchem(args, nodes, transport, folder):
    """SCF and CI, by NWChem's own account of its tasks on rank 0."""
    shutil.copy(args.ci, folder / "hcno.nw")
    start = [args.wiglaf, "run", "-n", nodes, "--transport", transport, "-x", WINDOWS, "--"]
    text = ran(start + ["nwchem.openmpi", "hcno.nw"], folder)
    times = found(r"Task\s+times\s+cpu:\s+(\S+)s\s+wall:\s+(\S+)s", text, "times of two tasks")
    if len(times) != 2:
        sys.exit(f"stages: NWChem ran {len(times)} tasks, not SCF and CI")
    stages = {}
    for stage, (cpu, wall) in zip(("SCF", "CI"), times):
        stages[stage] = {"wall_s": float(wall), "cpu_s": float(cpu)}
    scf = found(r"Total SCF energy =\s+(\S+)", text, "SCF energy")[0]
    cisd = found(r"CISD correlation energy / hartree =\s+(\S+)", text, "CISD energy")[-1]
    return stages, {"scf": float(scf), "cisd": float(cisd)}


def measure(args, runs):
    """Adds each run that came to its end."""
    nodes = sorted({int(count) for count in args.nodes.split(",")})
    with tempfile.TemporaryDirectory(prefix="stages-", dir=os.getcwd()) as name:
        folder = Path(name)
        for round_ in range(1, args.repeats + 1):
            for count in nodes:
                for transport in args.transports.split(","):
                    stages, ours = transformed(args, count, transport, folder)
                    more, theirs = nwchem(args, count, transport, folder)
                    stages.update(more)
                    runs.append({
                        "round": round_, "nodes": count, "transport": transport, "stages": stages,
                        "transformation": ours, "nwchem": theirs,
                    })
                    total = sum(stage["wall_s"] for stage in stages.values())
                    print(f"stages: round {round_}, {count} nodes, {transport}: {total:.2f} s", file=sys.stderr)


def reference(args):
    if not args.pyscf:
        return json.loads((HERE / "reference.json").read_text())
    return json.loads(ran([args.pyscf, HERE / "reference.py"], HERE))


def median(values):
    values, half = sorted(values), len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def table(runs):
    """A line for each number of nodes and transport: wall and CPU of each stage."""
    lines = ["nodes  transport" + "".join(f"{stage + ' wall':>12}{'CPU':>8}" for stage in STAGES) + "   (s)"]
    for nodes, transport in dict.fromkeys((run["nodes"], run["transport"]) for run in runs):
        here = [run["stages"] for run in runs if (run["nodes"], run["transport"]) == (nodes, transport)]
        line = f"{nodes:<5}  {transport:<9}"
        for stage in STAGES:
            wall, cpu = (median([one[stage][what] for one in here]) for what in ("wall_s", "cpu_s"))
            line += f"{wall:>12.2f}{cpu:>8.2f}"
        lines.append(line)
    return "\n".join(lines)


def checks(runs, known):
    """Each check with what it found: between numbers of nodes, and between programs."""
    result = []
    for who, what in (("transformation", "scf"), ("transformation", "mp2"), ("nwchem", "scf"), ("nwchem", "cisd")):
        values = [run[who][what] for run in runs]
        result.append((f"{who} {what}, all runs", max(values) - min(values), NODES_MAX))
        name = {"scf": "scf_hartree", "mp2": "mp2_correlation_hartree", "cisd": "cisd_correlation_hartree"}[what]
        far = max(abs(value - known[name]) for value in values)
        result.append((f"{who} {what}, {known['by']}", far, CODES_MAX))
    return result


def main():
    args, early = arguments(), None
    if args.judge:
        runs = []
        for file in args.judge:
            try:
                whole = json.loads(Path(file).read_text())
                runs, known = runs + whole["runs"], whole["reference"]
                if whole["schema"] != SCHEMA:
                    raise KeyError("schema")
            except (OSError, KeyError, TypeError, ValueError) as why:
                sys.exit(f"stages: {file} is no whole file of --json ({why}); make it again")
    else:
        if not Path(args.program).is_file():
            sys.exit("stages: ../transformation is not built; see its README, or name it with --program")
        known, runs = reference(args), []
        try:
            measure(args, runs)
        except (KeyboardInterrupt, SystemExit) as why:
            early = str(why) or "stages: ended early"
        if not runs:
            sys.exit(early)
    if args.json:
        whole = {"schema": SCHEMA, "runs": runs, "reference": known}
        Path(args.json).write_text(json.dumps(whole, indent=1) + "\n")
    print(table(runs))
    print()
    wrong = 0
    for what, far, most in checks(runs, known):
        # What is no number is wrong, too.
        is_right = far <= most
        wrong += not is_right
        print(f"{'right' if is_right else 'WRONG'}: {what}: {far:.1e} hartree apart, at most {most:.0e}")
    if early:
        sys.exit(f"{early}\nstages: {len(runs)} runs that came to their end are above")
    if wrong:
        sys.exit(f"stages: {wrong} of the energies differ, as said above")


if __name__ == "__main__":
    main()
