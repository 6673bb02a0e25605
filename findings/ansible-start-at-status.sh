#!/usr/bin/env bash
# What: ansible-playbook with a task or a tag that the playbook does not have; PyPI ansible-core 2.19.14.
# Guess: a status other than 0, as for a host that is not there (--limit pc9), because nothing was done.
# Happens: `--start-at-task 'mount home'`, where the task is called 'mount /home', says `[ERROR]: No matching task` and exits with 0.
#   `--tags mont` runs no task, says nothing at all, and exits with 0.
# Who meets it: scripts and cron: `ansible-playbook site.yml --tags mounts && scontrol update NodeName=pc1 State=RESUME` puts a PC
#   back to work that nothing was done to, once the task or tag is renamed.
# Instead: `--list-tasks` with the same options, and a look that it is not empty; or a count of ok= in PLAY RECAP.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T ANSIBLE_NOCOLOR=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install ansible-core==2.19.14
cat >site.yml <<'Y'
- hosts: all
  gather_facts: false
  tasks:
    - name: mount /home
      debug: msg=mounted
      tags: mounts
Y
echo 'pc1 ansible_connection=local ansible_python_interpreter="{{ ansible_playbook_python }}"' >hosts
run() {
    local status=0
    v/bin/ansible-playbook -i hosts "$@" site.yml >words 2>errors </dev/null || status=$?
    echo "$*: status $status, $(grep -c '"msg": "mounted"' words) tasks, $(grep -o '^\[ERROR\]: No matching task' errors || echo no such error)"
}
v/bin/ansible --version >version; head -n 1 version
{
    run --tags mounts; run --start-at-task 'mount /home'
    run --limit pc9
    run --tags mont; run --start-at-task 'mount home'
} | tee out
diff - out <<'P'
--tags mounts: status 0, 1 tasks, no such error
--start-at-task mount /home: status 0, 1 tasks, no such error
--limit pc9: status 1, 0 tasks, no such error
--tags mont: status 0, 0 tasks, no such error
--start-at-task mount home: status 0, 0 tasks, [ERROR]: No matching task
P
echo "as observed: nothing was run, and the status is 0"
