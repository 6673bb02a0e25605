#!/usr/bin/env bash
# What: arguments with blanks behind likwid-pin; Debian likwid 5.2.2+dfsg1-1.
# Guess: the program gets the arguments that it has without likwid-pin, as behind taskset, numactl and hwloc-bind.
# Happens: all are joined and cut at each blank: `./program 'first run'` has two arguments, and `sh -c 'exit 3'` is
#   `sh -c exit 3`, which exits with 0. likwid-pin exits with the status of the program, 0 here too.
# Who meets it: titles, file names with blanks, `python -c`, and `bash -c "a && b"`: a command that fails is a success.
# Instead: write the command to a script, and give likwid-pin the script.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q likwid=5.2.2+dfsg1-1 libhwloc15=2.9.0-1 hwloc=2.9.0-1 libnuma1 liblua5.3-0 lua5.3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # it looks for its parts in /usr
cat >program <<'E'
#!/bin/sh
printf '%s arguments:' $#; [ $# = 0 ] || printf ' <%s>' "$@"; echo
E
printf '#!/bin/sh\nexit 3\n' >three
chmod +x program three
{
    for how in "taskset -c 0" "hwloc-bind core:0 --" "likwid-pin -q -c 0"; do
        echo "$how"
        $how ./program 'first run' "it's" '*' '' 2>&1 || true
        status=0; $how ./three || status=$?; echo " ./three: status $status"
        status=0; $how sh -c 'exit 3' || status=$?; echo " sh -c 'exit 3': status $status"
        status=0; $how sh -c 'ls nosuch && echo done' >words 2>&1 || status=$?
        echo " sh -c 'ls nosuch && echo done': status $status, $(grep -c cannot words || true) errors"
    done
} | tee out
diff - out <<'E'
taskset -c 0
4 arguments: <first run> <it's> <*> <>
 ./three: status 3
 sh -c 'exit 3': status 3
 sh -c 'ls nosuch && echo done': status 2, 1 errors
hwloc-bind core:0 --
4 arguments: <first run> <it's> <*> <>
 ./three: status 3
 sh -c 'exit 3': status 3
 sh -c 'ls nosuch && echo done': status 2, 1 errors
likwid-pin -q -c 0
5 arguments: <first> <run> <it's> <*> <>
 ./three: status 3
 sh -c 'exit 3': status 0
 sh -c 'ls nosuch && echo done': status 0, 0 errors
E
echo "as observed: likwid-pin cuts arguments at blanks"
