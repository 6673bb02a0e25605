//! `xtask guests`: jobs on two QEMU guests with kernels, drivers and clocks of their own. Processors are
//! emulated, so no time here means anything. It is run by hand; it takes root and some 20 minutes.

mod batch;
mod image;
mod machine;
mod nodes;

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use crate::packages::{self, Purpose};
use machine::{CARDS, Card, Lab, said};

const LINKS: [&str; 2] = ["packet", "udp"];
/// Longer than a job of some seconds takes on guests, and than Wiglaf takes for a host to be dead. mpirun that has
/// lost a host does not end when it is asked to.
const LIMIT: &str = "timeout -k 10 180";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only what contains one of these words, such as `e1000e` or `pingpong`; `image` first: images of nodes instead, all or those that are
    /// named (`image bios uefi secure`); `batch`: batch jobs on guests with systemd.
    words: Vec<String>,
    /// Make disks and guests, say how to enter them, and wait for Ctrl-C.
    #[arg(long)]
    shell: bool,
}

/// What was tried, and what was wrong.
type Row = (String, Result<(), String>);

/// Makes the guests, tries everything, prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    packages::install_programs(Purpose::Guests)?;
    let workspace =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no workspace")?;
    let folder = workspace.join("target/guests");
    match arguments.words.first().map(String::as_str) {
        Some("image") => {
            return nodes::run(workspace, &folder, &arguments.words[1..]);
        }
        Some("batch") => return batch::run(workspace, &folder),
        _ => {}
    }
    let image = image::make(workspace, &folder)?;
    eprintln!("== guests: starting two; consoles: {}/g?.console", folder.display());
    let mut lab = Lab::up(image, &folder)?;
    if arguments.shell {
        for guest in [1, 2] {
            println!("g{guest}: {:?}", lab.ssh(guest, "ann", "bash -l"));
        }
        println!("Ctrl-C ends them.");
        loop {
            std::thread::park();
        }
    }
    let is_meant = |name: &str| {
        arguments.words.is_empty() || arguments.words.iter().any(|word| name.contains(word))
    };
    let mut rows: Vec<Row> = Vec::new();
    for (name, test) in tests() {
        if is_meant(&name) {
            eprintln!("== guests: {name}");
            let outcome = test(&mut lab);
            if let Err(why) = &outcome {
                eprintln!("failed: {why}");
            }
            rows.push((name, outcome));
        }
    }
    drop(lab);
    report(&rows)
}

fn report(rows: &[Row]) -> Result<(), String> {
    for (name, outcome) in rows {
        match outcome {
            Ok(()) => println!("ok      {name}"),
            Err(why) => println!("failed  {name}: {why}"),
        }
    }
    let failed = rows.iter().filter(|(_, outcome)| outcome.is_err()).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} failed", rows.len())) }
}

type Test = Box<dyn Fn(&mut Lab) -> Result<(), String>>;

fn tests() -> Vec<(String, Test)> {
    let mut tests: Vec<(String, Test)> = Vec::new();
    for card in CARDS {
        for link in LINKS {
            let name = format!("{} {link}", card.name);
            tests
                .push((format!("pingpong {name}"), Box::new(move |lab| pingpong(lab, card, link))));
            tests
                .push((format!("exchange {name}"), Box::new(move |lab| exchange(lab, card, link))));
        }
    }
    for card in CARDS {
        let name = format!("carrier of {} lost and back in a job", card.name);
        tests.push((name, Box::new(move |lab| carrier(lab, card))));
    }
    let card = CARDS[0];
    for link in LINKS {
        let name = format!("frames lost for 4 s in a job, {} {link}", card.name);
        tests.push((name, Box::new(move |lab| outage(lab, card, link))));
        let name = format!("MTU 9000 against 1500, {} {link}", card.name);
        tests.push((name, Box::new(move |lab| mtu(lab, card, link))));
        let name = format!("MTU 9000, {} {link}", card.name);
        tests.push((name, Box::new(move |lab| long_frames(lab, card, link))));
    }
    tests.push(("tune all cards".to_owned(), Box::new(|lab| tune(lab))));
    for link in LINKS {
        let name = format!("guest killed in a job, {} {link}", card.name);
        tests.push((name, Box::new(move |lab| death(lab, card, link))));
    }
    tests
}

/// libfabric's own program over the provider, which compares what it gets.
fn pingpong(lab: &Lab, card: Card, link: &str) -> Result<(), String> {
    let line = format!(
        "eval \"$(wiglaf env)\"; export WIGLAF_IF={} WIGLAF_LINK={link} WIGLAF_KEY=; \
         {LIMIT} fi_pingpong -p wiglaf -e rdm -c -I 3",
        card.name
    );
    let server = lab.ssh(2, "ann", &line).spawn().map_err(|why| why.to_string())?;
    // It refuses connections until it listens.
    let address = card.address(2);
    let client =
        format!("for i in $(seq 30); do ({line} {address}) && exit 0; sleep 1; done; exit 1");
    let client = lab.run(1, "ann", &client);
    let server = server.wait_with_output().map_err(|why| why.to_string())?;
    if client?.contains("1m ") { said(&server).map(drop) } else { Err("it ended early".to_owned()) }
}

/// The line that starts a job of one rank on each guest for so many seconds. Its output goes through a file: what
/// mpirun leaves behind would hold the connection open.
fn job(card: Card, link: &str, seconds: u32) -> String {
    format!(
        "eval \"$(wiglaf env --interface {} --link {link})\"; {LIMIT} mpirun \
         --mca oob_tcp_if_include 10.9.0.0/24 -n 2 --host g1,g2 /usr/local/bin/exchange {seconds} \
         > job.out 2>&1; rc=$?; cat job.out; exit $rc",
        card.name
    )
}

fn exchange(lab: &Lab, card: Card, link: &str) -> Result<(), String> {
    is_right(&lab.run(1, "ann", &job(card, link, 0))?)
}

fn is_right(text: &str) -> Result<(), String> {
    if text.contains("content is right") { Ok(()) } else { Err(format!("it said: {text}")) }
}

/// Starts a job and waits until its first round is over.
fn running(lab: &Lab, card: Card, link: &str, seconds: u32) -> Result<Child, String> {
    let _ = lab.run(1, "ann", "rm -f job.out");
    let job = lab.ssh(1, "ann", &job(card, link, seconds)).spawn();
    let mut job = job.map_err(|why| why.to_string())?;
    while matches!(job.try_wait(), Ok(None)) {
        if lab.run(1, "ann", "grep -q running job.out").is_ok() {
            return Ok(job);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let text = ended(job)?;
    Err(format!("the job ended before its first round: {text}"))
}

fn ended(job: Child) -> Result<String, String> {
    said(&job.wait_with_output().map_err(|why| why.to_string())?)
}

/// The driver says that the cable is out, and the job goes on when it is in again.
fn carrier(lab: &Lab, card: Card) -> Result<(), String> {
    let job = running(lab, card, "packet", 20)?;
    lab.set_link(card, 2, false)?;
    std::thread::sleep(Duration::from_secs(4));
    let seen = lab.run(2, "ann", &format!("cat /sys/class/net/{}/carrier", card.name));
    lab.set_link(card, 2, true)?;
    is_right(&ended(job)?)?;
    match seen?.trim() {
        "0" => Ok(()),
        other => {
            Err(format!("the job went on; but the driver saw no cable pulled: carrier {other}"))
        }
    }
}

fn outage(lab: &Lab, card: Card, link: &str) -> Result<(), String> {
    let job = running(lab, card, link, 20)?;
    lab.set_cable(card, 2, false)?;
    std::thread::sleep(Duration::from_secs(4));
    lab.set_cable(card, 2, true)?;
    is_right(&ended(job)?)
}

fn set_mtu(lab: &Lab, card: Card, guests: &[u8], mtu: u32) -> Result<(), String> {
    let line = format!("ip link set {} mtu {mtu}", card.name);
    guests.iter().try_for_each(|guest| lab.run(*guest, "root", &line).map(drop))
}

fn mtu(lab: &Lab, card: Card, link: &str) -> Result<(), String> {
    set_mtu(lab, card, &[1], 9000)?;
    let outcome = exchange(lab, card, link);
    set_mtu(lab, card, &[1], 1500)?;
    outcome
}

fn long_frames(lab: &Lab, card: Card, link: &str) -> Result<(), String> {
    set_mtu(lab, card, &[1, 2], 9000)?;
    let outcome = exchange(lab, card, link);
    set_mtu(lab, card, &[1, 2], 1500)?;
    outcome
}

/// What ethtool says of all cards of the first guest, and how soon its processors are to wake.
fn settings(lab: &Lab) -> Result<String, String> {
    let cards: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
    let line = format!(
        "for card in {}; do for what in -c -g --show-eee; do ethtool $what $card 2>&1; done; done; \
         od -An -td4 /dev/cpu_dma_latency",
        cards.join(" ")
    );
    lab.run(1, "root", &line)
}

/// Waits until all is as it was.
fn as_before(lab: &Lab, before: &str, what: &str) -> Result<(), String> {
    for _ in 0..60 {
        if settings(lab)? == before {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Err(format!("{what}: it was\n{before}\nand is\n{}", settings(lab)?))
}

/// Cards with real drivers are tuned through the helper, and are as they were when that is undone, when the helper
/// is killed while somebody holds it, and after its process that tunes was killed with it.
fn tune(lab: &Lab) -> Result<(), String> {
    const ASK: &str =
        "\"wants\":{\"rx_usecs\":0,\"eee_off\":true,\"rings_max\":true,\"awake_us\":0}";
    const START: &str = "wiglaf-helper </dev/null >/var/log/helper.log 2>&1 & sleep 2";
    let before = settings(lab)?;
    let line = |what: &str| format!("echo '{{\"what\":\"{what}\",{ASK}}}'");
    let kept = lab.run(1, "ann", &format!("{} | wiglaf host-tune", line("Keep")))?;
    eprintln!("tuned: {}", kept.trim());
    let tuned = settings(lab)?;
    for wanted in ["rx-usecs: 0", "RX: 4096"] {
        let count = |text: &str| {
            text.split_whitespace().collect::<Vec<_>>().join(" ").matches(wanted).count()
        };
        if count(&tuned) <= count(&before) {
            return Err(format!("no card has {wanted:?} that had not: {tuned}"));
        }
    }
    let _ = lab.run(1, "ann", &format!("{} | wiglaf host-tune", line("Undo")))?;
    as_before(lab, &before, "undone")?;

    let hold =
        format!("({}; sleep 600) | wiglaf host-tune >held & sleep 3; cat held", line("Hold"));
    for kill in [
        "kill -KILL $(pgrep -o -x wiglaf-helper)",
        "kill -STOP $(pgrep -n -x wiglaf-helper); kill -KILL $(pgrep -x wiglaf-helper)",
    ] {
        let held = lab.ssh(1, "ann", &hold).spawn().map_err(|why| why.to_string())?;
        let mut is_tuned = false;
        for _ in 0..60 {
            is_tuned = is_tuned || settings(lab)? != before;
            if is_tuned {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        let _ = lab.run(1, "root", &format!("{kill}; sleep 1; pkill -x sleep; true"))?;
        let _ = lab.run(1, "root", START)?;
        let _ = held.wait_with_output();
        if !is_tuned {
            return Err("nothing was tuned while it was held".to_owned());
        }
        as_before(lab, &before, kill)?;
    }
    Ok(())
}

/// The other guest loses its power: the job ends, says whom it lost, and leaves no process.
fn death(lab: &mut Lab, card: Card, link: &str) -> Result<(), String> {
    let job = running(lab, card, link, 600)?;
    lab.power_off(2);
    let output = job.wait_with_output().map_err(|why| why.to_string())?;
    // mpirun names it first where its keepalive is faster than Wiglaf's patience.
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let is_named = told.contains(&card.address(2)) || told.contains("g2");
    let outcome = said(&output);
    // A moment for what is about to end.
    std::thread::sleep(Duration::from_secs(2));
    let left = lab.run(1, "ann", "ps -C exchange,mpirun,orted,ssh -o comm= || true");
    let _ = lab.run(1, "ann", "pkill -KILL -x 'exchange|mpirun|orted|ssh'");
    lab.start(2)?;
    lab.wait_for(2)?;
    match outcome {
        Ok(text) => Err(format!("the job ended as if nothing had happened: {text}")),
        Err(why) if why.starts_with("still running") => Err(why),
        Err(why) if !is_named => Err(format!("the job ended without naming g2: {why}")),
        Err(_) if !left.as_ref().is_ok_and(|text| text.trim().is_empty()) => {
            Err(format!("processes are left: {left:?}"))
        }
        Err(_) => Ok(()),
    }
}
