#!/usr/bin/env bash
# What: two files for node_exporter's textfile collector with one metric; Debian prometheus-node-exporter 1.5.0-1+b6.
# Guess: samples of both are served, or an error is counted in node_textfile_scrape_error, which alerts are made of.
# Happens: where the HELP lines differ by a word, the samples of the file whose name sorts later vanish. The answer is 200,
#   node_textfile_scrape_error is 0, and node_textfile_mtime_seconds says that the file was read. Only the log has it.
# Who meets it: two cron jobs, or two versions of one program after an upgrade, that write the same metric with labels of
#   their own: one half of the hosts' disks or jobs is no longer there, and no alert of the collector fires.
# Instead: one file for each metric name; alert on `absent(...)` of what must be there, not on node_textfile_scrape_error.
set -euo pipefail
T=$(mktemp -d); exporter=; trap '[ -z "$exporter" ] || kill "$exporter"; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q prometheus-node-exporter=1.5.0-1+b6 >/dev/null 2>&1
dpkg -x ./*.deb .
usr/bin/prometheus-node-exporter --version 2>&1 | head -n 1
mkdir files
printf '# HELP disk_hours Hours of use.\n# TYPE disk_hours gauge\ndisk_hours{disk="a"} 1\n' >files/1.prom
printf '# HELP disk_hours Hours used.\n# TYPE disk_hours gauge\ndisk_hours{disk="b"} 2\n' >files/2.prom
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
usr/bin/prometheus-node-exporter --web.listen-address="127.0.0.1:$port" --collector.disable-defaults --collector.textfile \
    --collector.textfile.directory=files >log 2>&1 & exporter=$!
ask='import sys, urllib.request as u
answer = u.build_opener(u.ProxyHandler({})).open(sys.argv[1]); print("status", answer.status); print(answer.read().decode())'
for _ in $(seq 50); do
    python3 -c "$ask" "http://127.0.0.1:$port/metrics" >metrics 2>/dev/null && break
    sleep 0.2
done
grep -E '^(status|disk_hours|node_textfile)' metrics | sed 's/ [0-9.]*e+09$/ (a time)/' | tee out
diff - out <<'P'
status 200
disk_hours{disk="a"} 1
node_textfile_mtime_seconds{file="files/1.prom"} (a time)
node_textfile_mtime_seconds{file="files/2.prom"} (a time)
node_textfile_scrape_error 0
P
grep -qF 'has help' log
echo "as observed: a file with another help text is dropped, and the metric for errors says 0"
