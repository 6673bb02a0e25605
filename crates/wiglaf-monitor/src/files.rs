//! The files that are written on hosts: what each daemon listens on, whom it asks, and what it judges by.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use wiglaf_base::network::Cidr;
use wiglaf_join::extra::OwnFile;

/// What alerts are raised for.
pub const RULES: &str = include_str!("../share/rules.yml");
/// For Grafana.
pub const DASHBOARD: &str = include_str!("../share/grafana.json");

/// The ports of Debian's packages.
pub(crate) const NODE_PORT: u16 = 9100;
pub(crate) const SERVER_PORT: u16 = 9090;
pub(crate) const ALERT_PORT: u16 = 9093;
/// Packages of every host, and their services.
pub(crate) const ON_HOSTS: [&str; 1] = ["prometheus-node-exporter"];
/// Besides, those of the host that watches.
pub(crate) const ON_SERVER: [&str; 2] = ["prometheus", "prometheus-alertmanager"];
/// The service that writes what Wiglaf counts.
pub(crate) const EXPORTER: &str = "wiglaf-exporter";
/// Where it writes.
pub(crate) const FOLDER: &str = "/var/lib/wiglaf/monitor";
const CONFIG: &str = "/etc/wiglaf/monitor";
const OURS: &str = "# Written by `wiglaf monitor setup`; `wiglaf monitor remove` takes it away.\n";

/// Who is written to, and by which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The address.
    pub to: String,
    /// The sender's.
    pub from: String,
    /// HOST:PORT of a mail server that asks for no password.
    pub server: String,
}

/// A drop-in of a service: it is there before the package is, so that the daemon never listens anywhere else.
fn drop_in(service: &str, start: &str) -> OwnFile {
    OwnFile {
        path: PathBuf::from(format!("/etc/systemd/system/{service}.service.d/wiglaf.conf")),
        mode: 0o644,
        text: format!(
            "{OURS}[Unit]\n# The address must be there.\nWants=network-online.target\nAfter=network-online.target\n\
             StartLimitIntervalSec=0\n\n[Service]\nRestartSec=5s\nExecStart=\nExecStart={start}\n"
        ),
    }
}

/// What every host gets. `exe` is its Wiglaf.
pub(crate) fn of_host(address: Ipv4Addr, data: Cidr, exe: &Path) -> Vec<OwnFile> {
    let node = drop_in(
        ON_HOSTS[0],
        &format!(
            "/usr/bin/prometheus-node-exporter --web.listen-address={address}:{NODE_PORT} \
             --collector.textfile.directory={FOLDER} \
             --collector.netclass.ignored-devices=^(lo|veth.*|virbr.*|docker.*)$$"
        ),
    );
    let exporter = OwnFile {
        path: PathBuf::from(format!("/etc/systemd/system/{EXPORTER}.service")),
        mode: 0o644,
        text: format!(
            "{OURS}[Unit]\nDescription=Wiglaf's counters for Prometheus\n\n[Service]\n\
             ExecStart={} monitor export --every 10 --network {data} --output {FOLDER}/wiglaf.prom\n\
             Restart=on-failure\nRestartSec=5s\nStateDirectory=wiglaf/monitor\n\
             # It reads files of all users, and does nothing else.\n\
             CapabilityBoundingSet=CAP_DAC_READ_SEARCH\nNoNewPrivileges=yes\nProtectSystem=strict\n\
             ProtectHome=read-only\nRestrictAddressFamilies=AF_INET AF_NETLINK AF_UNIX\n\
             MemoryMax=64M\nNice=10\n\n[Install]\nWantedBy=multi-user.target\n",
            exe.display()
        ),
    };
    vec![node, exporter]
}

/// What the host that watches gets besides: each host's name and address are known.
pub(crate) fn of_server(
    address: Ipv4Addr,
    hosts: &[(String, Ipv4Addr)],
    mail: Option<&Mail>,
) -> Vec<OwnFile> {
    let config = |name: &str, text: String| OwnFile {
        path: Path::new(CONFIG).join(name),
        mode: 0o644,
        text,
    };
    let mut targets = String::new();
    for (name, address) in hosts {
        let _ = writeln!(
            targets,
            "      - targets: [\"{address}:{NODE_PORT}\"]\n        labels: {{ host: \"{name}\" }}"
        );
    }
    let prometheus = format!(
        "{OURS}global:\n  scrape_interval: 15s\n  evaluation_interval: 15s\nrule_files: [{CONFIG}/rules.yml]\n\
         alerting:\n  alertmanagers:\n    - static_configs:\n        - targets: [\"{address}:{ALERT_PORT}\"]\n\
         scrape_configs:\n  - job_name: wiglaf\n    static_configs:\n{targets}"
    );
    let receiver = mail.map_or_else(String::new, |mail| {
        format!(
            "    email_configs:\n      - to: \"{}\"\n        from: \"{}\"\n        smarthost: \"{}\"\n        \
             require_tls: false\n        send_resolved: true\n",
            mail.to, mail.from, mail.server
        )
    });
    let alerts = format!(
        "{OURS}route:\n  receiver: cluster\n  group_by: [alertname]\n  group_wait: 30s\n  group_interval: 5m\n  \
         repeat_interval: 12h\nreceivers:\n  - name: cluster\n{receiver}"
    );
    vec![
        config("prometheus.yml", prometheus),
        config("rules.yml", RULES.to_owned()),
        config("alertmanager.yml", alerts),
        config("grafana.json", DASHBOARD.to_owned()),
        drop_in(
            ON_SERVER[0],
            &format!(
                "/usr/bin/prometheus --config.file={CONFIG}/prometheus.yml \
                 --storage.tsdb.path=/var/lib/prometheus/metrics2/ --storage.tsdb.retention.time=90d \
                 --web.listen-address={address}:{SERVER_PORT}"
            ),
        ),
        // Without the empty address it also listens on port 9094 of all interfaces, for others of its kind.
        drop_in(
            ON_SERVER[1],
            &format!(
                "/usr/bin/prometheus-alertmanager --config.file={CONFIG}/alertmanager.yml \
                 --storage.path=/var/lib/prometheus/alertmanager/ \
                 --web.listen-address={address}:{ALERT_PORT} --cluster.listen-address="
            ),
        ),
    ]
}
