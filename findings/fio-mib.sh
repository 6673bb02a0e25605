#!/usr/bin/env bash
# What: sizes with Mi and MiB, Ki and KiB; Debian fio 3.33-3.
# Guess: 4Mi and 4MiB are one number: the manual says that B "may be included (e.g., kB is the same as k)". It also
#   says that by default prefixes are the wrong way round: 4M is 4 x 1048576, and `1 MB: 1000000, 1mi`.
# Happens: only MiB is the wrong way round. 4Mi is 4194304 and 4MiB is 4000000, 4Ki is 4096 and 4KiB is 4000. With
#   --kb_base=1000 they change places: 4Mi is 4000000, 4MiB is 4194304. MiB in the output is 1048576 in all cases.
# Who meets it: who writes units with care. --bs=4KiB measures blocks of 4000 bytes, which are aligned to no page or
#   sector, beside a colleague's --bs=4Ki with 4096; --size=16GiB is 14.9 GiB, and may fit into the page cache.
# Instead: 4k and 16g, without i.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q fio=3.33-3 libaio1 libgfapi0 libgfrpc0 libgfxdr0 libglusterfs0 libnbd0 libnuma1 libpmem1 \
    libpmemblk1 libndctl6 libdaxctl1 librados2 librbd1 libibverbs1 librdmacm1 libfmt9 libnl-3-200 libnl-route-3-200 \
    libkmod2 libgnutls30 libboost-thread1.74.0 libboost-iostreams1.74.0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
fio() { LD_LIBRARY_PATH=$libraries:$libraries/ceph:$T/lib/x86_64-linux-gnu usr/bin/fio "$@"; }
fio --version
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)["jobs"][0]["write"][sys.argv[1]])' "$1"; }
{
    for base in 1024 1000; do
        for size in 4m 4mb 4mi 4mib 4M 4MB 4Mi 4MiB; do
            fio --kb_base=$base --name=a --filename=a --rw=write --bs=1000 --size=$size --output-format=json >words
            rm a
            # the last block of 1000 bytes is left out where it is not full
            bytes=$(field io_bytes <words)
            case $bytes in 4000000) is=4000000 ;; 4194000) is=4194304 ;; *) is="$bytes written" ;; esac
            echo "kb_base=$base size=$size: $is"
        done
    done
    for block in 4k 4Ki 4KiB; do
        fio --name=a --filename=a --rw=write --bs=$block --size=512000 --output-format=json >words; rm a
        echo "bs=$block: 512000 bytes in $(field total_ios <words) blocks"
    done
} | tee out
diff - out <<'P'
kb_base=1024 size=4m: 4194304
kb_base=1024 size=4mb: 4194304
kb_base=1024 size=4mi: 4194304
kb_base=1024 size=4mib: 4000000
kb_base=1024 size=4M: 4194304
kb_base=1024 size=4MB: 4194304
kb_base=1024 size=4Mi: 4194304
kb_base=1024 size=4MiB: 4000000
kb_base=1000 size=4m: 4000000
kb_base=1000 size=4mb: 4000000
kb_base=1000 size=4mi: 4000000
kb_base=1000 size=4mib: 4194304
kb_base=1000 size=4M: 4000000
kb_base=1000 size=4MB: 4000000
kb_base=1000 size=4Mi: 4000000
kb_base=1000 size=4MiB: 4194304
bs=4k: 512000 bytes in 125 blocks
bs=4Ki: 512000 bytes in 125 blocks
bs=4KiB: 512000 bytes in 128 blocks
P
echo "as observed: Mi and MiB are two numbers, and Mi is M"
