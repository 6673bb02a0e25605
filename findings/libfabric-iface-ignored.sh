#!/usr/bin/env bash
# What: FI_TCP_IFACE and FI_SOCKETS_IFACE of libfabric's tcp and sockets providers; Debian libfabric-bin 1.17.0-3.
# Guess: an interface that is not there, or a list of two, is refused: 'no data available', as for an unknown provider.
# Happens: one name that exists restricts the provider to it. A name that does not exist, a list `data,admin`, an address or
#   a network `10.77.0.1` are all ignored, and the provider offers every interface. Status 0 and no line.
# Who meets it: clusters of PCs whose interfaces have different names (enp3s0 here, eno1 there): one value in the job script
#   is right on some hosts; on the others messages go by the admin network, docker0 or Wi-Fi. It works, slowly, or hangs
#   when the peer cannot reach that network.
# Instead: find the name on each host by the network (`ip -o -4 address show to 10.77.0.0/24`) before the program starts,
#   and check with `fi_info -p tcp` that only its domain is left.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libfabric-bin=1.17.0-3 libfabric1=1.17.0-3 libpsm-infinipath1 libpsm2-2 librdmacm1 libibverbs1 libnl-3-200 libnl-route-3-200 libnuma1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH="$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu:$T/usr/lib" PATH="$T/usr/bin:$PATH"
unset FI_PROVIDER FI_LOG_LEVEL
fi_info --version | head -n 1
cat >inside.sh <<'P'
ip link set lo up
number=77
for name in data admin; do
    ip link add $name type veth peer name $name-peer; ip address add 10.$number.0.1/24 dev $name; number=88
    ip link set $name up; ip link set $name-peer up
done
show() { # provider, variable, value
    local status=0 domains
    domains=$(env "$2=$3" fi_info -p "$1" 2>words) || status=$?
    echo "$2=$3: status $status, $(wc -l <words) lines of errors, domains $(grep -oE 'domain: (data|admin)$' <<<"$domains" | sort -u | sed 's/.* //' | tr '\n' ' ')"
}
for value in data gone0 data,admin 10.77.0.1; do show tcp FI_TCP_IFACE "$value"; done
show sockets FI_SOCKETS_IFACE gone0
P
unshare -rn bash inside.sh | sed 's/ $//' | tee out
diff - out <<'P'
FI_TCP_IFACE=data: status 0, 0 lines of errors, domains data
FI_TCP_IFACE=gone0: status 0, 0 lines of errors, domains admin data
FI_TCP_IFACE=data,admin: status 0, 0 lines of errors, domains admin data
FI_TCP_IFACE=10.77.0.1: status 0, 0 lines of errors, domains admin data
FI_SOCKETS_IFACE=gone0: status 0, 0 lines of errors, domains admin data
P
echo "as observed: an interface that is not there is ignored, all are offered"
