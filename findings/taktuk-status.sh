#!/usr/bin/env bash
# What: the status of taktuk; Debian taktuk 3.7.7-3.
# Guess: not 0 where a command failed on a host, a host was not reached or a file was not sent, as dsh and `clush -S` have it.
# Happens: it is 0 whatever happens; only the lines that it prints tell. The manual has no word about its own status.
# Who meets it: `taktuk -f hosts broadcast put [ input ] [ /scratch/input ] && mpirun ...`: a PC works on the old input.
# Instead: count the lines of a stream: -o default -o status='"$host $line\n"' has the commands' wait status (768 is 3).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q taktuk=3.7.7-3 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
mkdir bin
cat >bin/ssh <<'E'
#!/bin/bash
# stands for ssh: pc9 is off
while [[ ${1:-} == -* ]]; do case $1 in -o|-l|-p) shift 2;; *) shift;; esac; done
[[ $1 != pc9 ]] || { echo "ssh: connect to host pc9 port 22: No route to host" >&2; exit 255; }
exec bash -c "${*:2}"
E
chmod +x bin/ssh
export HOME=$T PATH=$T/bin:$T/usr/bin:$PATH
run() {
    local status=0; timeout 30 taktuk -s "$@" >words 2>&1 </dev/null || status=$?
    echo "$*: status $status, $(grep -oE 'Exited with status [0-9]+|No route to host|No such file or directory' words | sort | xargs)"
}
echo new >input
{
    run -m pc1 -m pc2 broadcast exec [ 'exit 3;' ]
    run -m pc1 broadcast exec [ 'kill -9 $$' ]
    run -m pc9 broadcast exec [ true ]
    run -m pc1 broadcast put [ input ] [ nosuch/input ]
    run -m pc1 broadcast put [ absent ] [ output ]
} | tee out
diff - out <<'E'
-m pc1 -m pc2 broadcast exec [ exit 3; ]: status 0, Exited with status 768 Exited with status 768
-m pc1 broadcast exec [ kill -9 $$ ]: status 0, Exited with status 9
-m pc9 broadcast exec [ true ]: status 0, No route to host
-m pc1 broadcast put [ input ] [ nosuch/input ]: status 0, No such file or directory
-m pc1 broadcast put [ absent ] [ output ]: status 0, No such file or directory
E
echo "as observed: taktuk exits with 0 whatever its commands did"
