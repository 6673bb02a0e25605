#!/usr/bin/env bash
# What: `&` or `<` in names that gmond hands on as XML; Debian ganglia-monitor 3.7.2-6+b2.
# Guess: they are escaped, as those of a value are: `gmetric -v 'R&D'` is R&amp;D.
# Happens: the name of a cluster, and the title, description and units of a metric are written as they are: the whole
#   document is no XML. gmetric's status is 0.
# Who meets it: a cluster named "Physics & Chemistry", or a metric with the title "read & write": one such metric of one
#   PC, and a reader, such as gmetad, has none of any PC until gmond is started again.
# Instead: 'and'; or write &amp; in gmond.conf and for gmetric, which is handed on as it is.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q ganglia-monitor=3.7.2-6+b2 libganglia1=3.7.2-6+b2 libconfuse2 libapr1 libexpat1 libpcre3 \
        >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
ip link set lo up
libraries=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
cat >read.py <<'E'
import socket, xml.dom.minidom
def read():
    with socket.create_connection(("127.0.0.1", 8649)) as s:
        return b"".join(iter(lambda: s.recv(65536), b""))
try:
    text = xml.dom.minidom.parseString(read())
    print(" metrics:", *sorted(m.getAttribute("NAME") + "=" + m.getAttribute("VAL") for m in text.getElementsByTagName("METRIC")))
except Exception as error:
    print("", type(error).__name__, str(error).split(":")[0])
E
metric() { status=0; LD_LIBRARY_PATH=$libraries usr/bin/gmetric -c gmond.conf "$@" || status=$?; echo " gmetric $*: status $status"; }
gmond() { # name of the cluster
    cat >gmond.conf <<E
globals { daemonize = no setuid = no host_dmax = 0 }
cluster { name = "$1" }
udp_send_channel { host = 127.0.0.1 port = 8649 }
udp_recv_channel { port = 8649 bind = 127.0.0.1 }
tcp_accept_channel { port = 8649 bind = 127.0.0.1 }
E
    echo "cluster $1"
    LD_LIBRARY_PATH=$libraries usr/sbin/gmond -f -c gmond.conf >words 2>&1 &
    for _ in $(seq 50); do (exec 3<>/dev/tcp/127.0.0.1/8649) 2>/dev/null && break; sleep 0.1; done
}
{
    gmond 'Physics and Chemistry'
    metric -n job -v 'R&D <1>' -t string; sleep 1; python3 read.py
    metric -n io -v 3 -t int32 -T 'read & write'; sleep 1; python3 read.py
    kill $!; wait || true
    gmond 'Physics &amp; Chemistry'
    metric -n io -v 3 -t int32 -D 'load &lt; 1'; sleep 1; python3 read.py
    metric -n io2 -v 3 -t int32 -D 'load < 1'; sleep 1; python3 read.py
    kill $!; wait || true
    gmond 'Physics'
    metric -n io -v 3 -t int32 -u 'V & A'; sleep 1; python3 read.py
    kill $!; wait || true
    gmond 'Physics & Chemistry'; python3 read.py
    kill $!; wait || true
} | tee out
diff - out <<'E'
cluster Physics and Chemistry
 gmetric -n job -v R&D <1> -t string: status 0
 metrics: job=R&D <1>
 gmetric -n io -v 3 -t int32 -T read & write: status 0
 ExpatError not well-formed (invalid token)
cluster Physics &amp; Chemistry
 gmetric -n io -v 3 -t int32 -D load &lt; 1: status 0
 metrics: io=3
 gmetric -n io2 -v 3 -t int32 -D load < 1: status 0
 ExpatError not well-formed (invalid token)
cluster Physics
 gmetric -n io -v 3 -t int32 -u V & A: status 0
 ExpatError not well-formed (invalid token)
cluster Physics & Chemistry
 ExpatError not well-formed (invalid token)
E
echo "as observed: gmond does not escape titles and names"
