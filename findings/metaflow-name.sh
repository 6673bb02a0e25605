#!/usr/bin/env bash
# What: `self.name` and a parameter called `name` in a flow; PyPI metaflow 2.19.39.
# Guess: what a step assigns to self.name is there in the next step, as for every other attribute, or the name is refused, as
#   self.index and self.input are. Parameter("name") is an option --name.
# Happens: in the step itself self.name is what it assigned, and in all later steps it is the name of the flow's class. A
#   parameter called name has no option, its default is dropped, and its value is the name of the class. Nothing is said, and
#   the status is 0.
# Who meets it: flows with a sample, molecule or case in self.name: later steps, and their files, have one name for all.
# Instead: another name, such as self.sample.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install metaflow==2.19.39
export HOME=$T USERNAME=somebody METAFLOW_HOME=$T/.metaflow
cat >study.py <<'P'
from metaflow import FlowSpec, step


class Study(FlowSpec):
    @step
    def start(self):
        self.name = self.sample = "water"
        print("SEEN in start: name", self.name, "sample", self.sample)
        self.next(self.end)

    @step
    def end(self):
        print("SEEN in end: name", self.name, "sample", self.sample)


if __name__ == "__main__":
    Study()
P
cat >option.py <<'P'
from metaflow import FlowSpec, Parameter, step


class Study(FlowSpec):
    name = Parameter("name", default="water")
    sample = Parameter("sample", default="water")

    @step
    def start(self):
        print("SEEN of parameters: name", self.name, "sample", self.sample)
        self.next(self.end)

    @step
    def end(self):
        pass


if __name__ == "__main__":
    Study()
P
run() { # program, arguments
    local status=0
    v/bin/python "$1" --quiet run "${@:2}" >words 2>&1 || status=$?
    grep -oE 'SEEN.*|no such option: --name' words || true
    echo "$*: status $status"
}
{ run study.py; run option.py; run option.py --sample ice; run option.py --name ice; } | tee out
diff - out <<'P'
SEEN in start: name water sample water
SEEN in end: name Study sample water
study.py: status 0
SEEN of parameters: name Study sample water
option.py: status 0
SEEN of parameters: name Study sample ice
option.py --sample ice: status 0
no such option: --name
option.py --name ice: status 2
P
echo "as observed: self.name is the flow's name in later steps"
