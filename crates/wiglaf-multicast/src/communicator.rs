//! Which communicators have a group, and how they get one.

use std::ffi::c_int;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use wiglaf_endpoint::{Config, WaitPolicy};
use wiglaf_link_udp::{BulkSocket, Place, group};
use wiglaf_links::{config_from_env, interface_for, random_epoch};

use crate::NAME;
use crate::behind::{self, Any, Family, SUCCESS};
use crate::group::{Group, GroupError, Progress};
use crate::message::{PREFIX_LEN, Refused, Seal};
use crate::plan::{Member, Plan, Waiting};
use crate::sockets::Counts;
use crate::team::{Local, Places, Team};

/// Switches the library on: `on`, or `tell` to hear which communicators it serves and why not others.
const VARIABLE: &str = "WIGLAF_MULTICAST";
/// A communicator gets a group at this call that a group could serve: many live for a call or two.
const CALLS_BEFORE: usize = 8;
/// Most groups that a process ever has: each has four descriptors and a thread.
const GROUPS_MAX: usize = 64;
/// Most hosts, because the root takes a message from each, one after another.
const MEMBERS_MAX: usize = 64;
/// Most ranks, as `wiglaf run` has it.
const RANKS_MAX: usize = 4096;
/// The longest contribution, in bytes: one frame of 1,500 bytes holds it.
pub(crate) const CONTRIBUTION_LEN_MAX: usize = 1024;
/// How long a frame to all may take to come through.
const TRIAL_LIMIT: Duration = Duration::from_millis(200);
/// Adaptive waiting sleeps after it (ADR 0039), where the core is a rank's own.
const POLLS_ADAPTIVE: Duration = Duration::from_millis(3);
const POLLS_BLOCK: Duration = Duration::from_micros(20);

/// What the environment asks for, if it asks for anything.
struct Asked {
    config: Config,
    tells: bool,
}

fn asked() -> Option<&'static Asked> {
    static ASKED: OnceLock<Option<Asked>> = OnceLock::new();
    let read = || {
        let tells = match std::env::var(VARIABLE).unwrap_or_default().as_str() {
            "on" => false,
            "tell" => true,
            _ => return None,
        };
        // Handles of MPI 5's own ABI are others.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        if maps.contains("/libmpi_abi.so") {
            wiglaf_interpose::complain(NAME, "programs of MPI's own ABI are left to the MPI");
            return None;
        }
        // All ranks have one environment, so all or none go on here.
        match config_from_env() {
            Ok(config) => Some(Asked { config, tells }),
            Err(error) => {
                wiglaf_interpose::complain(NAME, &error.to_string());
                None
            }
        }
    };
    ASKED.get_or_init(read).as_ref()
}

/// Whether the library does anything in this process.
pub(crate) fn is_asked() -> bool {
    asked().is_some()
}

/// Prints the counts of this process's groups, if the user asked for them.
pub(crate) fn tell_counts() {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !asked().is_some_and(|asked| asked.tells) || counts.is_empty() {
        return;
    }
    let all: Vec<_> = counts.iter().map(|counts| counts.seen()).collect();
    let asked: u64 = all.iter().map(|seen| seen.asked).sum();
    let repaired: u64 = all.iter().map(|seen| seen.repaired).sum();
    let mut sentence =
        format!("groups: {}; asked again {asked} times, sent again {repaired} frames", all.len());
    for (kind, name) in Refused::NAMES.iter().enumerate() {
        let refused: u64 = all.iter().map(|seen| seen.refused[kind]).sum();
        if refused > 0 {
            sentence.push_str(&format!(", refused {refused} {name}"));
        }
    }
    wiglaf_interpose::complain(NAME, &sentence);
}

/// What is known of a communicator.
enum State {
    /// So many calls that a group could have served.
    Counting(usize),
    With(Box<Team>),
    Without,
}

/// What all groups of this process have counted.
static COUNTS: Mutex<Vec<Arc<Counts>>> = Mutex::new(Vec::new());
static GROUPS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn copy(_: Any, _: c_int, _: Any, _: Any, _: Any, flag: *mut c_int) -> c_int {
    // A copy of a communicator is another one.
    // SAFETY: MPI's interface: where the answer goes.
    unsafe { flag.write(0) };
    SUCCESS
}

unsafe extern "C" fn delete(_: Any, _: c_int, value: Any, _: Any) -> c_int {
    // SAFETY: every value under our keyval is such a box, and MPI deletes each once.
    let state = unsafe { Box::from_raw(value.cast::<Mutex<State>>()) };
    // A member may still ask: the repair thread of a group answers until the process ends.
    std::mem::forget(state.into_inner());
    SUCCESS
}

/// Waits for all ranks of a communicator that has a team and is about to be freed: none stops to answer before all
/// have heard all.
///
/// # Safety
/// `comm` is a handle that the program hands to MPI to be freed, as all its ranks do.
pub(crate) unsafe fn wait_before_free(comm: Any) {
    if !is_asked() || comm.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let Some(Some(state)) = (unsafe { attribute(comm) }) else { return };
    let has_team = matches!(*state.lock().unwrap_or_else(PoisonError::into_inner), State::With(_));
    if has_team {
        // SAFETY: the caller's promise.
        unsafe { behind::barrier(comm) };
    }
}

fn keyval() -> c_int {
    static KEYVAL: OnceLock<c_int> = OnceLock::new();
    *KEYVAL.get_or_init(|| {
        let mut keyval = 0;
        // SAFETY: both functions have MPI's interface and live for ever.
        unsafe {
            behind::comm_create_keyval(copy, delete, &raw mut keyval, std::ptr::null_mut());
        }
        keyval
    })
}

/// What a communicator has under our keyval, if anything; the outer `None` where MPI does not know the communicator.
///
/// # Safety
/// `comm` is a handle that the program has handed to MPI.
unsafe fn attribute<'a>(comm: Any) -> Option<Option<&'a Mutex<State>>> {
    let (mut value, mut is_there) = (std::ptr::null_mut(), 0);
    // SAFETY: the caller's promise; the answers go to live variables.
    let known = unsafe { behind::comm_get_attr(comm, keyval(), &raw mut value, &raw mut is_there) };
    // SAFETY: every value under our keyval is such a box. It lives until the communicator is freed, which a program
    // does not do while it calls a collective of it.
    let state = || unsafe { &*value.cast::<Mutex<State>>() };
    (known == SUCCESS).then(|| (is_there != 0).then(state))
}

/// What is known of that communicator, from now on; `None` where MPI does not know it.
///
/// # Safety
/// `comm` is a handle that the program has handed to MPI.
unsafe fn state<'a>(comm: Any) -> Option<&'a Mutex<State>> {
    // SAFETY: the caller's promise.
    if let Some(known) = unsafe { attribute(comm) }? {
        return Some(known);
    }
    let state = Box::into_raw(Box::new(Mutex::new(State::Counting(0))));
    // SAFETY: the caller's promise; the box is given to the communicator, which frees it by `delete`.
    if unsafe { behind::comm_set_attr(comm, keyval(), state.cast()) } != SUCCESS {
        // SAFETY: nobody else has it.
        drop(unsafe { Box::from_raw(state) });
        return None;
    }
    // SAFETY: as for `attribute`.
    Some(unsafe { &*state })
}

/// Lets the team of `comm` do `what`, whose code the call returns; `None` where it has none or `what` declines, and MPI
/// shall do it. All ranks call this for the same calls, so that it is the same at all of them.
///
/// # Safety
/// `comm` is a handle that the program has handed to MPI in a collective call.
pub(crate) unsafe fn with_team(
    comm: Any,
    what: impl FnOnce(&mut Team, &mut Progress<'_>) -> Result<Option<c_int>, GroupError>,
) -> Option<c_int> {
    let asked = asked()?;
    // SAFETY: the caller's promise.
    let mut state = unsafe { state(comm) }?.lock().unwrap_or_else(PoisonError::into_inner);
    if let State::Counting(calls) = &mut *state {
        *calls += 1;
        if *calls < CALLS_BEFORE {
            return None;
        }
        // SAFETY: the caller's promise: all members are in this call.
        *state = match unsafe { set_up(comm, asked) } {
            Ok(team) => State::With(Box::new(team)),
            Err(why) => {
                if asked.tells {
                    wiglaf_interpose::complain(
                        NAME,
                        &format!("a communicator stays with the MPI: {why}"),
                    );
                }
                State::Without
            }
        };
    }
    let State::With(team) = &mut *state else { return None };
    let mut status = [0_u64; 16];
    let mut go_on = || {
        let mut is_there = 0;
        // SAFETY: a look for a message that nobody waits for changes nothing, but the MPI goes on meanwhile. No MPI's
        // status is longer.
        unsafe {
            behind::iprobe(0, 0, comm, &raw mut is_there, status.as_mut_ptr().cast());
        }
    };
    what(team, &mut go_on).unwrap_or_else(|error| {
        wiglaf_interpose::complain(NAME, &error.to_string());
        // SAFETY: the caller's promise.
        unsafe { behind::abort(comm, 1) };
        None
    })
}

/// What each rank tells the others before there is a group: 40 bytes.
#[derive(Debug, Clone, Copy)]
struct Offer {
    ip: Ipv4Addr,
    own: u16,
    repair: u16,
    payload_len: u16,
    /// Of the communicator's group, where this is rank 0's.
    port: u16,
    epoch: u64,
    id: u64,
    is_able: bool,
}

const OFFER_LEN: usize = 40;

impl Offer {
    /// Of a rank that does not lead its host.
    fn silent(ip: Ipv4Addr) -> Self {
        Self { ip, own: 0, repair: 0, payload_len: 0, port: 0, epoch: 0, id: 0, is_able: true }
    }

    fn unable() -> Self {
        Self { is_able: false, ..Self::silent(Ipv4Addr::UNSPECIFIED) }
    }

    fn to_bytes(self) -> [u8; OFFER_LEN] {
        let mut bytes = [0; OFFER_LEN];
        bytes[0..4].copy_from_slice(&self.ip.octets());
        bytes[4..6].copy_from_slice(&self.own.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.repair.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.port.to_le_bytes());
        bytes[12] = self.is_able.into();
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; OFFER_LEN]) -> Self {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Self {
            ip: Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]),
            own: short(4),
            repair: short(6),
            payload_len: short(8),
            port: short(10),
            epoch: long(16),
            id: long(24),
            is_able: bytes[12] == 1,
        }
    }
}

/// Longest UDP payload of an Ethernet frame of 1,500 bytes; longer frames are not known to pass.
const PAYLOAD_LEN_MAX: usize = 1472;

/// The interface for frames to all, and the longest UDP payload there.
fn network(config: &Config) -> Result<(Ipv4Addr, usize), String> {
    if config.encrypt {
        return Err("messages are encrypted, and those of groups cannot be".to_owned());
    }
    if GROUPS.load(Ordering::Relaxed) >= GROUPS_MAX {
        return Err(format!("this process has had {GROUPS_MAX} groups"));
    }
    let interface = interface_for(config.ip).map_err(|error| error.to_string())?;
    if interface.is_loopback {
        return Err("the loopback interface joins no hosts".to_owned());
    }
    let payload_len = (interface.mtu.saturating_sub(28)).min(PAYLOAD_LEN_MAX);
    if payload_len < PREFIX_LEN + CONTRIBUTION_LEN_MAX {
        return Err(format!("{} carries frames of {} bytes only", interface.name, interface.mtu));
    }
    Ok((interface.ip, payload_len))
}

/// Opens the sockets of a host's leader, and describes them for the others.
fn open_sockets(
    config: &Config,
    ip: Ipv4Addr,
    payload_len: usize,
) -> Result<([BulkSocket; 2], Offer), String> {
    let place = Place { ip, port: 0, ports: config.ports };
    let open =
        || BulkSocket::open(place).map_err(|error| format!("no socket can be bound: {error}"));
    let sockets = [open()?, open()?];
    // A port that this host has free is likely to be free elsewhere, too.
    let port = open()?.port();
    let [own, repair] = sockets.each_ref().map(BulkSocket::port);
    let (epoch, id) = (random_epoch().0, random_epoch().0);
    let payload_len = payload_len as u16;
    Ok((sockets, Offer { ip, own, repair, payload_len, port, epoch, id, is_able: true }))
}

/// Makes the team of a communicator, if all of its ranks can be in it.
///
/// # Safety
/// All ranks of `comm` are in this call.
unsafe fn set_up(comm: Any, asked: &Asked) -> Result<Team, String> {
    let [mut size, mut rank, mut is_inter] = [0; 3];
    // SAFETY: the caller's promise; the answers go to live variables.
    unsafe {
        behind::comm_size(comm, &raw mut size);
        behind::comm_rank(comm, &raw mut rank);
        behind::comm_test_inter(comm, &raw mut is_inter);
    }
    let size = usize::try_from(size).unwrap_or(0);
    // All ranks find this alike.
    if is_inter != 0 || !(2..=RANKS_MAX).contains(&size) {
        return Err(format!("it has {size} ranks, or two groups"));
    }
    let network = network(&asked.config);
    let mine = network.as_ref().map_or(Offer::unable(), |(ip, _)| Offer::silent(*ip));
    // SAFETY: the caller's promise.
    let offers = unsafe { all_able(comm, mine, size) };
    let (ip, payload_len) = network?;
    let ips: Vec<Ipv4Addr> = offers?.iter().map(|offer| offer.ip).collect();
    let places = Places::new(&ips);
    if !(2..=MEMBERS_MAX).contains(&places.hosts()) {
        return Err(format!("its ranks are on {} hosts", places.hosts()));
    }
    let mut team = Team { rank: rank as usize, places, group: None, local: None };
    if team.places.shares() {
        let mut local = std::ptr::null_mut();
        let host = c_int::from(team.places.host(team.rank));
        // SAFETY: the caller's promise; the answer goes to a live variable.
        unsafe { behind::comm_split(comm, host, rank, &raw mut local) };
        team.local = Some(Local(local));
    }
    // SAFETY: the caller's promise.
    let outcome = unsafe { join(comm, &mut team, asked, (ip, payload_len)) };
    if let (Err(_), Some(Local(local))) = (&outcome, &mut team.local) {
        // SAFETY: ours, and all of its ranks come here: they know the same.
        unsafe { behind::comm_free(local) };
    }
    outcome?;
    GROUPS.fetch_add(1, Ordering::Relaxed);
    if asked.tells && rank == 0 {
        let hosts = team.places.hosts();
        let sentence = format!("a communicator of {size} ranks on {hosts} hosts has a group");
        wiglaf_interpose::complain(NAME, &sentence);
    }
    Ok(team)
}

/// Makes the group of the hosts' leaders; the other ranks learn whether it exists.
///
/// # Safety
/// All ranks of `comm` are in this call.
unsafe fn join(
    comm: Any,
    team: &mut Team,
    asked: &Asked,
    (ip, payload_len): (Ipv4Addr, usize),
) -> Result<(), String> {
    let size = team.places.ranks();
    let is_leader = team.places.is_leader(team.rank);
    let opened = is_leader.then(|| open_sockets(&asked.config, ip, payload_len)).transpose();
    let mine = match &opened {
        Ok(Some((_, offer))) => *offer,
        Ok(None) => Offer::silent(ip),
        Err(_) => Offer::unable(),
    };
    // SAFETY: the caller's promise.
    let offers = unsafe { all_able(comm, mine, size) };
    let opened = opened?;
    let offers = offers?;
    let offers: Vec<Offer> = team.places.leaders().map(|rank| offers[rank]).collect();
    let host = team.places.host(team.rank);
    let mut group = opened.map(|([own, repair], _)| {
        Group::join(plan(&offers, host, &asked.config), own, repair)
            .map_err(|error| error.to_string())
    });
    // SAFETY: the caller's promise. Nothing is sent to all before all listen.
    unsafe { behind::barrier(comm) };
    let heard = match &mut group {
        None => true,
        Some(Ok(group)) => group.trial(TRIAL_LIMIT).unwrap_or(false),
        Some(Err(_)) => false,
    };
    //= docs/protocol.md#13-frames-to-all-hosts-of-a-group
    //# Members MUST tell each other by the MPI, before the first operation, that they all can and that the trial has come, and otherwise none of them uses the group.
    // SAFETY: the caller's promise.
    let heard = unsafe { exchange(comm, [u8::from(heard)], size) };
    let group = group.transpose()?;
    if let Some(deaf) = heard.iter().position(|heard| *heard != [1]) {
        return Err(format!("what is sent to all does not come to its rank {deaf}"));
    }
    if let Some(group) = &group {
        COUNTS.lock().unwrap_or_else(PoisonError::into_inner).push(group.counts());
    }
    team.group = group;
    Ok(())
}

/// Exchanges offers with all ranks; an error if one of them cannot take part.
///
/// # Safety
/// All ranks of `comm` are in this call.
unsafe fn all_able(comm: Any, mine: Offer, size: usize) -> Result<Vec<Offer>, String> {
    // SAFETY: the caller's promise.
    let offers = unsafe { exchange(comm, mine.to_bytes(), size) };
    let offers: Vec<Offer> = offers.iter().map(Offer::from_bytes).collect();
    match offers.iter().position(|offer| !offer.is_able) {
        Some(unable) => Err(format!("its rank {unable} cannot")),
        None => Ok(offers),
    }
}

fn plan(offers: &[Offer], rank: u16, config: &Config) -> Plan {
    let members = offers
        .iter()
        .map(|offer| Member {
            own: SocketAddrV4::new(offer.ip, offer.own),
            repair: SocketAddrV4::new(offer.ip, offer.repair),
            epoch: offer.epoch,
        })
        .collect();
    let payload_len = offers.iter().map(|offer| offer.payload_len).min().unwrap_or(0);
    let (part_len, batch_max) = Plan::parts(usize::from(payload_len));
    let Offer { id, port, .. } = offers[0];
    let [a, b, c, ..] = id.to_le_bytes();
    let group = group([a, b, c], port);
    let polls = match config.wait {
        WaitPolicy::Adaptive if !config.oversubscribed => POLLS_ADAPTIVE,
        WaitPolicy::Adaptive => Duration::ZERO,
        WaitPolicy::Poll | WaitPolicy::Block => POLLS_BLOCK,
    };
    Plan {
        rank,
        members,
        group,
        seal: Seal::new(&config.key, id),
        part_len,
        batch_max,
        waiting: Waiting { polls, never_sleeps: config.wait == WaitPolicy::Poll },
        lose_one_in: 0,
    }
}

/// Exchanges a few bytes with all ranks by the MPI itself.
///
/// # Safety
/// All members of `comm` are in this call.
unsafe fn exchange<const N: usize>(comm: Any, mine: [u8; N], size: usize) -> Vec<[u8; N]> {
    let byte = Family::get().byte();
    let mut all = vec![[0; N]; size];
    // SAFETY: the caller's promise; there is room for the bytes of each.
    unsafe {
        let send = mine.as_ptr().cast_mut().cast();
        let receive = all.as_mut_ptr().cast();
        behind::allgather(send, N as c_int, byte, receive, N as c_int, byte, comm);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_come_back() {
        let offer = Offer {
            ip: Ipv4Addr::new(10, 1, 2, 3),
            own: 4,
            repair: 5,
            payload_len: 1472,
            port: 6,
            epoch: 7 << 40,
            id: 8 << 50,
            is_able: true,
        };
        let back = Offer::from_bytes(&offer.to_bytes());
        assert_eq!(format!("{offer:?}"), format!("{back:?}"));
        assert!(!Offer::from_bytes(&Offer::unable().to_bytes()).is_able);
    }
}
