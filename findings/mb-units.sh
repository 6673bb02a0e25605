#!/usr/bin/env bash
# What: 'MB/s' of three network benchmarks; Debian libfabric-bin 1.17.0-3, ucx-utils 1.13.1-1, iperf3 3.12-1+deb12u2.
# Guess: MB/s means the same in all, so the stacks can be compared.
# Happens: fi_pingpong's MB/sec are 10^6 bytes, although its '1m' is 2^20; ucx_perftest's MB/s and iperf3's MBytes/sec are
#   2^20 bytes, although iperf3's Mbits/sec are 10^6 bits. None says so in its output.
# Who meets it: who compares libfabric with UCX on the same wire: UCX looks 4.9 % slower when both are equally fast. And
#   a link of 1 Gbit/s (125 MB/s) is '119 MBytes/sec' in iperf3: nothing is lost.
# Instead: compare bytes and seconds (`usec/xfer` and the message rate times the size), or iperf3's bits.
set -euo pipefail
T=$(mktemp -d); chmod 755 "$T"
trap 'for pid in ${servers-}; do kill "$pid" 2>/dev/null || true; done; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libfabric-bin=1.17.0-3 libfabric1=1.17.0-3 ucx-utils=1.13.1-1 libucx0=1.13.1-1 iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 \
    libsctp1 libpsm-infinipath1 libpsm2-2 librdmacm1 libibverbs1 libnl-3-200 libnl-route-3-200 libnuma1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH="$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu:$T/usr/lib" PATH="$T/usr/bin:$PATH"
export UCX_TLS=tcp,self UCX_NET_DEVICES=lo FI_TCP_IFACE=lo
servers=
fi_pingpong -p tcp -e msg -B 15400 -I 200 -S 1048576 >fi.server 2>&1 & servers+=" $!"
ucx_perftest -p 15401 >ucx.server 2>&1 & servers+=" $!"
iperf3 -s -B 127.0.0.1 -p 15402 -f M --forceflush >iperf.server 2>&1 & servers+=" $!"
sleep 2
timeout 60 fi_pingpong -p tcp -e msg -P 15400 -I 200 -S 1048576 127.0.0.1 >fi
timeout 60 ucx_perftest 127.0.0.1 -p 15401 -t tag_bw -s 1048576 -n 300 -w 20 >ucx 2>/dev/null
timeout 60 iperf3 -c 127.0.0.1 -p 15402 -t 2 -J >iperf.json # The server says the same run in its own words.
sleep 1
cat >compare.py <<'P'
import json, re
def close(a, b): return abs(a - b) / b < 0.015
def unit(name, said, true):
    # What the tool calls a megabyte, by its own figures for bytes and time.
    mega = true / said
    print(f"{name}: says {said} MB/s for {true:.0f} bytes/s: its MB has {mega:.0f} bytes")
    return mega
line = open("fi").read().split("\n")[-2].split()
fi = unit("fi_pingpong", float(line[5]), 2**20 / (float(line[6]) * 1e-6))
line = [part for part in open("ucx").read().split("\n") if part.startswith("Final")][0].split()
ucx = unit("ucx_perftest", float(line[6]), 2**20 / (float(line[4]) * 1e-6))
line = [part for part in open("iperf.server") if part.rstrip().endswith("receiver")][0]
received = json.load(open("iperf.json"))["end"]["sum_received"]
said = float(re.search(r"([\d.]+) MBytes/sec", line).group(1))
iperf = unit("iperf3", said, received["bytes"] / received["seconds"])
assert close(iperf, 2**20), iperf
assert close(fi, 1e6), fi
assert close(ucx, 2**20), ucx
P
python3 compare.py
echo "as observed: fi_pingpong's MB is 10^6 bytes, ucx_perftest's and iperf3's 2^20"
