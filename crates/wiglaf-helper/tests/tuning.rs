//! The real helper tunes a card whose driver has a setting: a tap, in a network namespace. What it cannot have here
//! (delays, rings, EEE) is in `src/tuner/tests.rs` and on guests.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Gid, Pid, Signal, Uid, kill_process};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tempfile::TempDir;
use wiglaf_helper::{
    AskError, Refusal, Wants, hold_tuning_at, keep_tuning_at, status_at, tuned_at, undo_tuning_at,
};
use wiglaf_netlink::{Card, Coalesce, Ethtool};
use wiglaf_testnet::{Node, Pair};

const ANN: u32 = 61_001;
const BOB: u32 = 61_002;
const POLICY: &str = "[[admit]]\nusers = [61001]\nlinks = []\ntune = ['192.168.79.0/24']\n";
/// What the card is set to before.
const FRAMES: u32 = 9;
const MODERATION: Wants =
    Wants { rx_usecs: Some(0), eee_off: false, rings_max: false, awake_us: None };

/// A helper beside a card, and its folder.
struct Lab<'a> {
    node: &'a Node,
    folder: TempDir,
    card: Card,
    helper: Option<Child>,
}

impl<'a> Lab<'a> {
    fn new(node: &'a Node) -> Option<Self> {
        if let Err(why) = node.ip(&["tuntap", "add", "tap0", "mode", "tap"]) {
            eprintln!("skipped: no tap here: {why}");
            return None;
        }
        node.ip(&["address", "add", "192.168.79.1/24", "dev", "tap0"]).unwrap();
        node.ip(&["link", "set", "tap0", "up"]).unwrap();
        let shown = node.ip(&["-o", "link", "show", "tap0"]).unwrap();
        let index = shown.split(':').next().unwrap().parse().unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("policy"), POLICY).unwrap();
        let card = Card { index, name: "tap0".to_owned() };
        let mut lab = Self { node, folder, card, helper: None };
        lab.set_frames(FRAMES);
        lab.start();
        Some(lab)
    }

    fn start(&mut self) {
        let log = std::fs::File::create(self.at("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiglaf-helper"));
        command.arg("--socket").arg(self.at("socket")).arg("--policy").arg(self.at("policy"));
        command.arg("--tuning").arg(self.at("tuning")).stderr(log).stdin(Stdio::null());
        self.helper = Some(self.node.run(|| command.spawn()).unwrap());
        wait(|| self.log().contains("listening"));
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.at("socket")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.at("log")).unwrap()
    }

    fn frames(&self) -> u32 {
        let coalesce = self.node.run(|| Ethtool::open().unwrap().coalesce(&self.card)).unwrap();
        coalesce.rx_frames.unwrap()
    }

    fn set_frames(&self, frames: u32) {
        let values = Coalesce { rx_frames: Some(frames), ..Coalesce::default() };
        self.node.run(|| Ethtool::open().unwrap().set_coalesce(&self.card, &values)).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(self.helper.as_ref().unwrap())
    }

    /// The helper's child, which changes cards.
    fn tuner(&self) -> Pid {
        let pid = self.pid().as_raw_pid();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap();
        Pid::from_raw(children.trim().parse().unwrap()).unwrap()
    }

    fn as_user<T: Send>(&self, uid: u32, action: impl FnOnce(&Path) -> T + Send) -> T {
        let socket = self.socket();
        self.node.run(|| {
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            action(&socket)
        })
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        if let Some(mut helper) = self.helper.take() {
            let _ = helper.kill();
            let _ = helper.wait();
        }
    }
}

fn wait(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn refusal<T>(asked: Result<T, AskError>) -> (Refusal, String) {
    match asked {
        Err(AskError::Refused(refusal, why)) => (refusal, why),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("granted"),
    }
}

#[test]
fn card_is_tuned_as_long_as_somebody_holds_it_and_then_as_it_was() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(lab) = Lab::new(&pair.a) else { return };
    let (first, lease) = lab.as_user(ANN, |at| hold_tuning_at(at, MODERATION)).unwrap();
    assert_eq!((first.changes.len(), lab.frames()), (1, 1), "{first:?}");
    let change = &first.changes[0];
    assert_eq!((change.setting.as_str(), change.before.as_str()), ("rx-frames", "9"));
    let (_, second) = lab.as_user(ANN, |at| hold_tuning_at(at, MODERATION)).unwrap();
    drop(lease);
    wait(|| tuned_at(&lab.socket()).unwrap().holders.len() == 1);
    assert_eq!(lab.frames(), 1, "the second holds it");
    drop(second);
    wait(|| lab.frames() == FRAMES);
    // Until it is undone, by whom has done it or by root; not by another.
    let all = lab.as_user(ANN, |at| keep_tuning_at(at, Wants { awake_us: None, ..Wants::ALL }));
    let all = all.unwrap();
    let said = |what: &str| all.notes.iter().any(|note| note.text.contains(what));
    assert!(said("no Energy Efficient Ethernet") && said("no ring sizes"), "{all:?}");
    lab.as_user(BOB, undo_tuning_at).unwrap();
    assert_eq!(lab.frames(), 1);
    assert_eq!(tuned_at(&lab.socket()).unwrap().holders[0].uid, ANN);
    lab.as_user(ANN, undo_tuning_at).unwrap();
    assert_eq!(lab.frames(), FRAMES);
    // What somebody has changed since stays.
    lab.as_user(ANN, |at| keep_tuning_at(at, MODERATION)).unwrap();
    lab.set_frames(3);
    let undone = lab.as_user(ANN, undo_tuning_at).unwrap();
    assert!(undone.notes[0].text.contains("somebody else has changed since: rx-frames 3"));
    assert_eq!(lab.frames(), 3);
}

#[test]
fn who_is_not_admitted_is_refused_and_no_card_outside_the_policy_is_touched() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(lab) = Lab::new(&pair.a) else { return };
    let asked = lab.as_user(BOB, |at| hold_tuning_at(at, MODERATION).map(drop));
    let (why, sentence) = refusal(asked);
    assert_eq!(why, Refusal::NotAdmitted);
    assert!(sentence.contains("does not admit user 61002 to tune"), "{sentence}");
    let out_of_bounds = Wants { rx_usecs: Some(5000), ..MODERATION };
    let asked = lab.as_user(ANN, |at| hold_tuning_at(at, out_of_bounds).map(drop));
    assert_eq!(refusal(asked).0, Refusal::Malformed);
    std::fs::write(lab.at("policy"), POLICY.replace("79", "78")).unwrap();
    let asked = lab.as_user(ANN, |at| keep_tuning_at(at, MODERATION));
    let (why, sentence) = refusal(asked);
    assert_eq!(why, Refusal::NotTheirs);
    assert!(sentence.contains("lets user 61001 tune"), "{sentence}");
    assert_eq!(lab.frames(), FRAMES);
    std::fs::write(lab.at("policy"), POLICY).unwrap();
    let leases = lab.as_user(ANN, |at| {
        let leases: Vec<_> = (0..16).map(|_| hold_tuning_at(at, MODERATION).unwrap()).collect();
        assert_eq!(refusal(hold_tuning_at(at, MODERATION)).0, Refusal::TooMany);
        leases
    });
    let status = status_at(&lab.socket()).unwrap();
    for count in ["granted 16", "malformed 1", "not admitted 1", "not theirs 1", "too many 1"] {
        assert!(status.contains(count), "{count}: {status}");
    }
    drop(leases);
    wait(|| lab.frames() == FRAMES);
}

#[test]
fn whichever_of_its_processes_is_killed_the_card_is_as_it_was() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(mut lab) = Lab::new(&pair.a) else { return };
    // The helper: its child sets the card back and ends.
    let (_, lease) = lab.as_user(ANN, |at| hold_tuning_at(at, MODERATION)).unwrap();
    assert_eq!(lab.frames(), 1);
    kill_process(lab.pid(), Signal::KILL).unwrap();
    lab.helper.take().unwrap().wait().unwrap();
    wait(|| lab.frames() == FRAMES);
    let mut polled =
        [rustix::event::PollFd::from_borrowed_fd(lease.end(), rustix::event::PollFlags::empty())];
    rustix::event::poll(&mut polled, None).unwrap();
    assert!(polled[0].revents().contains(rustix::event::PollFlags::ERR), "the holder hears of it");
    // Both: the next one does. What was kept stays.
    lab.start();
    let (_, _lease) = lab.as_user(ANN, |at| hold_tuning_at(at, MODERATION)).unwrap();
    let tuner = lab.tuner();
    kill_process(tuner, Signal::STOP).unwrap();
    kill_process(lab.pid(), Signal::KILL).unwrap();
    kill_process(tuner, Signal::KILL).unwrap();
    lab.helper.take().unwrap().wait().unwrap();
    assert_eq!(lab.frames(), 1, "nobody was there to set it back");
    lab.start();
    wait(|| lab.frames() == FRAMES);
    lab.as_user(ANN, |at| keep_tuning_at(at, MODERATION)).unwrap();
    kill_process(lab.pid(), Signal::KILL).unwrap();
    lab.helper.take().unwrap().wait().unwrap();
    lab.start();
    let tuned = tuned_at(&lab.socket()).unwrap();
    assert_eq!((lab.frames(), tuned.holders.len()), (1, 1), "{tuned:?}");
    lab.as_user(ANN, undo_tuning_at).unwrap();
    assert_eq!(lab.frames(), FRAMES);
    // The child alone: the helper ends, and says so.
    let (_, _lease) = lab.as_user(ANN, |at| hold_tuning_at(at, MODERATION)).unwrap();
    kill_process(lab.tuner(), Signal::KILL).unwrap();
    let status = lab.helper.take().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(lab.log().contains("the process that tunes has ended"), "{}", lab.log());
    lab.start();
    wait(|| lab.frames() == FRAMES);
}

/// The one real setting of processors. It is the machine's, and others may want it shorter meanwhile.
#[test]
fn processors_are_kept_awake_as_long_as_somebody_holds_that() {
    const LATENCY: i32 = 737;
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(lab) = Lab::new(&pair.a) else { return };
    let wakes_within = || -> Option<i32> {
        let mut bytes = [0; 4];
        let mut file = std::fs::File::open("/dev/cpu_dma_latency").ok()?;
        file.read_exact(&mut bytes).ok()?;
        Some(i32::from_ne_bytes(bytes))
    };
    let wants = Wants { awake_us: Some(LATENCY as u16), rx_usecs: None, ..MODERATION };
    let (tuned, lease) = lab.as_user(ANN, |at| hold_tuning_at(at, wants)).unwrap();
    let Some(held) = wakes_within() else {
        assert!(tuned.notes[0].text.contains("cannot keep its processors awake"), "{tuned:?}");
        eprintln!("skipped: no /dev/cpu_dma_latency");
        return;
    };
    assert!(tuned.notes.is_empty() && held <= LATENCY, "{tuned:?} {held}");
    drop(lease);
    wait(|| wakes_within() != Some(LATENCY));
}

#[test]
fn process_that_tunes_keeps_one_capability_and_the_helper_has_not_that_one() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(lab) = Lab::new(&pair.a) else { return };
    let of = |pid: Pid| {
        let mut text = String::new();
        let path = format!("/proc/{}/status", pid.as_raw_pid());
        std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    };
    // The first answer comes after it has given the others up.
    tuned_at(&lab.socket()).unwrap();
    for (pid, held) in [(lab.tuner(), "0000000000001000"), (lab.pid(), "0000000000002000")] {
        let status = of(pid);
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!([field("CapPrm:"), field("CapEff:"), field("CapBnd:")], [held; 3]);
        assert_eq!(field("Uid:"), "65534 65534 65534 65534");
        assert_eq!([field("NoNewPrivs:"), field("Seccomp:")], ["1", "2"]);
    }
    // What it has open: its socket, the kernel's, two files, the latency of processors, and no socket that listens.
    let folder = format!("/proc/{}/fd", lab.tuner().as_raw_pid());
    let open: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(open.iter().filter(|path| path.starts_with("socket:")).count(), 2, "{open:?}");
}
