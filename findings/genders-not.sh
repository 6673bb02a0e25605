#!/usr/bin/env bash
# What: `!` in a query of genders, nodeattr -q and pdsh -g; Debian genders 1.22-1+b5, pdsh 2.34-0.2.
# Guess: compute&&!login is all that compute and do not log in, or a syntax error, as `rack!=1` and 'compute and login'
#   are. The manual has ~ for the complement, beside && and || as in C and shells.
# Happens: `!` is dropped, and the status is 0: compute&&!login is compute&&login, the very PCs that were to be left
#   out. So are other signs, such as quotes and ?. A single & or | makes a name of its own that no PC has: nothing, and
#   status 0.
# Who meets it: `pdsh -g 'compute&&!login' reboot` reboots the PC on which the users are logged in, and no other.
# Instead: ~, as in compute&&~login, or compute--login; and `nodeattr -q` before the command.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q genders=1.22-1+b5 libgenders0=1.22-1+b5 pdsh=2.34-0.2 libreadline8 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
for deb in genders_*.deb pdsh_*.deb; do dpkg-deb --field "$deb" Package Version | xargs; done
pdsh() { # it looks for its modules in /usr only, so the package is laid over it
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare -m sh -c 'mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr; shift; exec pdsh "$@"' sh "$T" "$@"
}
cat >genders <<'P'
pc[1-4] compute
pc1 login
pc1 rack=1
pc[2-4] rack=2
P
{
    for query in 'compute&&~login' 'compute--login' 'compute&&!login' '!login' 'compute&login' 'compute and login' 'rack!=1'
    do
        result=0
        LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu usr/bin/nodeattr -f genders -q "$query" >nodes 2>/dev/null || result=$?
        echo "nodeattr -q '$query': $(cat nodes), status $result"
    done
    for query in 'compute&&~login' 'compute&&!login'; do
        result=0
        pdsh -S -R exec -F "$T/genders" -g "$query" echo reboot %h >nodes 2>/dev/null </dev/null || result=$?
        echo "pdsh -g '$query': $(sort nodes | cut -d: -f2 | xargs), status $result"
    done
} | tee out
diff - out <<'P'
nodeattr -q 'compute&&~login': pc[2-4], status 0
nodeattr -q 'compute--login': pc[2-4], status 0
nodeattr -q 'compute&&!login': pc1, status 0
nodeattr -q '!login': pc1, status 0
nodeattr -q 'compute&login': , status 0
nodeattr -q 'compute and login': , status 1
nodeattr -q 'rack!=1': , status 1
pdsh -g 'compute&&~login': reboot pc2 reboot pc3 reboot pc4, status 0
pdsh -g 'compute&&!login': reboot pc1, status 0
P
echo "as observed: ! is dropped"
