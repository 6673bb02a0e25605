#!/usr/bin/env bash
# What: --limit of ansible and ansible-playbook with a range of hosts that have a domain; PyPI ansible-core 2.19.14.
# Guess: 'pc[9:12].lab', by which the inventory file makes pc9 to pc12, is these hosts in --limit and `hosts:` too, or an error, as
#   'pc[9:12]' is where the names end with the number; pdsh's 'pc[9-12].lab' is an error.
# Happens: the brackets are a set of *characters*: 'pc[9:12].lab' is pc1, pc2 and pc9, 'pc[10-12].lab' is pc1 and pc2, and
#   'pc[2:4].lab' lacks pc3. Nothing is said, and the status is 0. The page on patterns has wildcards and slices of groups, all[0:2].
# Who meets it: the administrator who reboots or upgrades pc10 to pc12 by `--limit 'pc[10:12].lab'`: pc1 and pc2 go down.
# Instead: `--limit "$(nodeset -S , -e 'pc[10-12].lab')"`, or in a shell a list by braces; --list-hosts before each run.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install ansible-core==2.19.14
printf '%s\n' '[lab]' 'pc[1:12].lab' '[bare]' 'pc[1:12]' >hosts
chosen() { # group, limit
    local status=0
    v/bin/ansible "$1" -i hosts --limit "$2" --list-hosts >words 2>errors || status=$?
    echo "$2: status $status, $([ ! -s errors ] || echo error,) $(grep '^ *pc' words | xargs)"
}
v/bin/ansible --version >version; head -n 1 version
{
    chosen lab 'pc*.lab'
    for limit in 'pc[9:12].lab' 'pc[10:12].lab' 'pc[10-12].lab' 'pc[2:4].lab' 'pc9.lab,pc10.lab'; do chosen lab "$limit"; done
    for limit in 'pc[9:12]' 'pc[10-12]'; do chosen bare "$limit"; done
} | tee out
diff - out <<'P'
pc*.lab: status 0,  pc1.lab pc2.lab pc3.lab pc4.lab pc5.lab pc6.lab pc7.lab pc8.lab pc9.lab pc10.lab pc11.lab pc12.lab
pc[9:12].lab: status 0,  pc1.lab pc2.lab pc9.lab
pc[10:12].lab: status 0,  pc1.lab pc2.lab
pc[10-12].lab: status 0,  pc1.lab pc2.lab
pc[2:4].lab: status 0,  pc2.lab pc4.lab
pc9.lab,pc10.lab: status 0,  pc9.lab pc10.lab
pc[9:12]: status 1, error, 
pc[10-12]: status 1, error, 
P
echo "as observed: --limit 'pc[10:12].lab' is pc1 and pc2"
