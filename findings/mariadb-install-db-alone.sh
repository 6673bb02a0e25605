#!/usr/bin/env bash
# What: mariadb-install-db of Debian 12's package mariadb-server-core 1:10.11.19-0+deb12u1, which has that program and mariadbd.
# Guess: with the package and all that it depends on, it makes a database.
# Happens: 'FATAL ERROR: Could not find /usr/bin/my_print_defaults', status 1, and nothing is made. That program is in mariadb-client-core, on which
#   mariadb-server-core does not depend. The advice in the message, to pass --basedir, does not help: the program is nowhere.
# Who meets it: who wants a database of their own without Debian's service (containers, slurmdbd, tests), and installs the core package alone.
# Instead: install mariadb-client-core, too.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
mkdir "$T/core" "$T/client"
cd "$T"
apt-get download -q mariadb-server-core=1:10.11.19-0+deb12u1 mariadb-client-core=1:10.11.19-0+deb12u1 libaio1 liburing2 libnuma1 libpcre2-8-0 libmariadb3 >/dev/null 2>&1
for deb in *.deb; do case $deb in mariadb-client-core*) into=client ;; *) into=core ;; esac; dpkg -x "$deb" $into; done
echo "depends on mariadb-client-core: $(dpkg-deb -f mariadb-server-core*.deb Depends | grep -c mariadb-client-core || true)" | tee out
export LD_LIBRARY_PATH=$T/core/usr/lib/x86_64-linux-gnu:$T/core/lib/x86_64-linux-gnu
try() {
    status=0
    core/usr/bin/mariadb-install-db --no-defaults --basedir="$T/core/usr" --datadir="$T/db" --user="$(id -un)" \
        --auth-root-authentication-method=socket --skip-test-db >words 2>&1 || status=$?
    made=no; [ -d db/mysql ] && made=yes
    echo "$1: status $status, made: $made, $(grep -o 'Could not find my_print_defaults' words || true)"
}
{ try alone; cp -p client/usr/bin/my_print_defaults core/usr/bin/; try 'with my_print_defaults'; } | tee -a out
diff - out <<'P'
depends on mariadb-client-core: 0
alone: status 1, made: no, Could not find my_print_defaults
with my_print_defaults: status 0, made: yes, 
P
echo "as observed: the program that makes a database takes one of a package that is not named"
