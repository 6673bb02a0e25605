//! Leases on made-up cards: of settings such as adaptive moderation no driver of the machines that run these tests
//! has one. Cards with drivers are tuned in ../../tests/tuning.rs (a tap) and by `cargo xtask guests tune`.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

#[derive(Debug, Clone)]
struct Made {
    adaptive_rx: bool,
    rx_usecs: u32,
    eee: Option<bool>,
    rx_ring: u32,
    awake: Option<u16>,
    /// Settings that were made.
    count: usize,
    is_stubborn: bool,
    /// It makes something else of a delay, as some do.
    rounds: bool,
}

type Shared = Rc<RefCell<Made>>;

fn made() -> Shared {
    Rc::new(RefCell::new(Made {
        adaptive_rx: true,
        rx_usecs: 50,
        eee: Some(true),
        rx_ring: 256,
        awake: None,
        count: 0,
        is_stubborn: false,
        rounds: false,
    }))
}

impl Machine for Shared {
    fn look(&mut self, card: &Card, kind: Kind) -> io::Result<Seen> {
        if card.name != "made0" {
            return Err(io::Error::from_raw_os_error(19));
        }
        let made = self.borrow();
        Ok(match kind {
            Kind::Moderation => {
                Seen { now: moderation(made.adaptive_rx, made.rx_usecs), most: None }
            }
            Kind::Eee => {
                let enabled = made.eee.ok_or(io::ErrorKind::Unsupported)?;
                Seen { now: Value::Eee { enabled }, most: None }
            }
            Kind::Rings => {
                let rings = |rx| Value::Rings { rx: Some(rx), tx: None };
                Seen { now: rings(made.rx_ring), most: Some(rings(4096)) }
            }
        })
    }

    fn set(&mut self, _card: &Card, value: &Value, _now: &Value) -> io::Result<()> {
        let mut made = self.borrow_mut();
        if made.is_stubborn {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        made.count += 1;
        match *value {
            Value::Moderation { adaptive_rx, rx_usecs, .. } => {
                made.adaptive_rx = adaptive_rx.unwrap();
                made.rx_usecs = rx_usecs.unwrap() + u32::from(made.rounds && rx_usecs == Some(5));
            }
            Value::Eee { enabled } => made.eee = Some(enabled),
            Value::Rings { rx, .. } => made.rx_ring = rx.unwrap(),
        }
        Ok(())
    }

    fn hold_awake(&mut self, latency_us: Option<u16>) -> io::Result<()> {
        self.borrow_mut().awake = latency_us;
        Ok(())
    }
}

fn moderation(adaptive_rx: bool, rx_usecs: u32) -> Value {
    Value::Moderation { adaptive_rx: Some(adaptive_rx), rx_usecs: Some(rx_usecs), rx_frames: None }
}

fn kept(uid: u32, wants: Wants) -> Kept {
    Kept { uid, wants, cards: vec![Card { index: 2, name: "made0".to_owned() }] }
}

fn start(made: &Shared, folder: &tempfile::TempDir) -> (Tuner<Shared>, Vec<Note>) {
    Tuner::new(Rc::clone(made), Store::open(&folder.path().join("state")).unwrap())
}

fn as_before(made: &Shared) -> bool {
    let made = made.borrow();
    (made.adaptive_rx, made.rx_usecs, made.eee, made.rx_ring, made.awake)
        == (true, 50, Some(true), 256, None)
}

#[test]
fn last_of_two_holders_sets_everything_back() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let (mut tuner, _) = start(&made, &folder);
    let (first, tuned) = tuner.hold(kept(1, Wants::ALL)).unwrap();
    assert!(tuned.notes.is_empty(), "{tuned:?}");
    assert_eq!(tuned.changes.len(), 5, "{tuned:?}");
    let gentle = Wants { rx_usecs: Some(20), awake_us: Some(100), ..Wants::FOR_A_JOB };
    let (second, _) = tuner.hold(kept(2, gentle)).unwrap();
    {
        let made = made.borrow();
        assert_eq!((made.adaptive_rx, made.rx_usecs, made.eee), (false, 0, Some(false)));
        assert_eq!((made.rx_ring, made.awake, made.count), (4096, Some(0), 3));
    }
    assert!(tuner.release(&[first]).is_empty());
    {
        // What the second wants is there, and no more.
        let made = made.borrow();
        assert_eq!((made.adaptive_rx, made.rx_usecs, made.eee), (false, 20, Some(true)));
        assert_eq!((made.rx_ring, made.awake), (256, Some(100)));
    }
    assert!(tuner.release(&[second]).is_empty());
    assert!(as_before(&made), "{made:?}");
}

#[test]
fn tuner_after_a_killed_one_sets_back_what_processes_held_and_keeps_what_is_kept() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let (mut tuner, _) = start(&made, &folder);
    let _held = tuner.hold(kept(1, Wants::ALL)).unwrap();
    let eee = Wants { eee_off: true, ..Wants::default() };
    let _tuned = tuner.keep(kept(2, eee)).unwrap();
    drop(tuner); // without a word, as when it is killed
    let (mut tuner, notes) = start(&made, &folder);
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!((made.borrow().rx_usecs, made.borrow().rx_ring), (50, 256));
    assert_eq!(made.borrow().eee, Some(false), "user 2 keeps it so");
    // Who has kept nothing undoes nothing.
    let _tuned = tuner.undo(1);
    assert_eq!(made.borrow().eee, Some(false));
    let tuned = tuner.undo(0);
    assert!(tuned.holders.is_empty() && tuned.changes.is_empty(), "{tuned:?}");
    // The made-up processors do not forget what they were asked for.
    made.borrow_mut().awake = None;
    assert!(as_before(&made), "{made:?}");
}

#[test]
fn killed_before_or_after_it_has_changed_a_card_it_leaves_what_sets_it_back() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let save = |held: Vec<Held>| {
        let mut store = Store::open(&folder.path().join("state")).unwrap();
        let _state = store.load();
        store.save(State { held, kept: Vec::new() }).unwrap();
    };
    let card = Card { index: 2, name: "made0".to_owned() };
    let before = moderation(true, 50);
    let pending = Held { card, before, set: moderation(false, 5), is_pending: true };
    save(vec![pending.clone()]);
    let (tuner, notes) = start(&made, &folder);
    assert_eq!((notes.len(), made.borrow().count), (0, 0), "it was not changed: {notes:?}");
    drop(tuner);
    // It was changed, and its driver has rounded.
    save(vec![pending]);
    (made.borrow_mut().adaptive_rx, made.borrow_mut().rx_usecs) = (false, 6);
    let (_tuner, notes) = start(&made, &folder);
    assert!(notes.is_empty() && as_before(&made), "{notes:?} {made:?}");
}

#[test]
fn what_somebody_else_has_changed_since_stays_and_is_named() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let (mut tuner, _) = start(&made, &folder);
    let (number, _) = tuner.hold(kept(1, Wants::FOR_A_JOB)).unwrap();
    made.borrow_mut().rx_usecs = 7;
    let notes = tuner.release(&[number]);
    assert_eq!((made.borrow().adaptive_rx, made.borrow().rx_usecs), (false, 7));
    assert_eq!(
        notes[0].text,
        "keeps its interrupt moderation, which somebody else has changed since: adaptive-rx off, rx-usecs 7"
    );
    // With a second holder, what somebody set is what comes back.
    let (first, _) = tuner.hold(kept(1, Wants::FOR_A_JOB)).unwrap();
    made.borrow_mut().rx_usecs = 9;
    let (second, _) = tuner.hold(kept(1, Wants::FOR_A_JOB)).unwrap();
    assert_eq!(made.borrow().rx_usecs, 0);
    let notes = tuner.release(&[first, second]);
    assert!(notes.is_empty() && made.borrow().rx_usecs == 9, "{notes:?} {made:?}");
}

#[test]
fn driver_that_rounds_is_set_back_and_one_that_refuses_is_tried_again() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let (mut tuner, _) = start(&made, &folder);
    made.borrow_mut().rounds = true;
    let five = Wants { rx_usecs: Some(5), ..Wants::default() };
    let (number, tuned) = tuner.hold(kept(1, five)).unwrap();
    assert_eq!(tuned.changes[1].now, "6", "{tuned:?}");
    made.borrow_mut().is_stubborn = true;
    let notes = tuner.release(&[number]);
    assert!(
        notes[0].text.starts_with("cannot have its interrupt moderation set back"),
        "{notes:?}"
    );
    made.borrow_mut().is_stubborn = false;
    let _tuned = tuner.undo(1);
    assert!(as_before(&made), "{made:?}");
    // One that refuses to be tuned is not held.
    made.borrow_mut().is_stubborn = true;
    let (number, tuned) = tuner.hold(kept(1, five)).unwrap();
    assert!(tuned.changes.is_empty() && tuned.notes.len() == 1, "{tuned:?}");
    assert!(tuner.release(&[number]).is_empty());
}

#[test]
fn what_a_card_has_not_is_a_note_and_the_rest_is_done() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let (mut tuner, _) = start(&made, &folder);
    made.borrow_mut().eee = None;
    let mut all = kept(1, Wants::ALL);
    all.cards.push(Card { index: 3, name: "gone0".to_owned() });
    let (_number, tuned) = tuner.hold(all).unwrap();
    assert_eq!(made.borrow().rx_usecs, 0);
    let note = |card: &str| {
        let of = tuned.notes.iter().filter(|note| note.card.as_deref() == Some(card));
        of.map(|note| note.text.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(note("made0"), ["has no Energy Efficient Ethernet"]);
    assert_eq!(note("gone0").len(), 3, "{tuned:?}");
}

#[test]
fn leases_are_bounded_for_a_user_and_for_all() {
    let (made, folder) = (made(), tempfile::tempdir().unwrap());
    let (mut tuner, _) = start(&made, &folder);
    for _ in 0..LEASES_OF_USER_MAX {
        tuner.hold(kept(1, Wants::AWAKE)).unwrap();
    }
    assert_eq!(tuner.hold(kept(1, Wants::AWAKE)).unwrap_err(), Full::OfUser);
    for uid in 2.. {
        if tuner.hold(kept(uid, Wants::AWAKE)).is_err() {
            break;
        }
    }
    assert_eq!(tuner.leases.len(), LEASES_MAX);
    assert_eq!(tuner.hold(kept(9999, Wants::AWAKE)).unwrap_err(), Full::OfAll);
    assert_eq!(tuner.keep(kept(9999, Wants::AWAKE)).unwrap_err(), Full::OfAll);
}

#[test]
fn of_two_files_the_newer_whole_one_counts_and_others_folders_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("state");
    let state = |uid| State { held: Vec::new(), kept: vec![kept(uid, Wants::ALL)] };
    let mut store = Store::open(&at).unwrap();
    store.save(state(1)).unwrap();
    store.save(state(2)).unwrap();
    drop(store);
    let load = || Store::open(&at).unwrap().load();
    assert_eq!(load(), state(2));
    // Killed in the middle of a word.
    let newer = at.join("a");
    let text = std::fs::read(&newer).unwrap();
    std::fs::write(&newer, &text[..text.len() - 1]).unwrap();
    assert_eq!(load(), state(1));
    let mut store = Store::open(&at).unwrap();
    let _state = store.load();
    store.save(state(3)).unwrap();
    drop(store);
    assert_eq!(load(), state(3));
    std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Store::open(&at).is_err());
}
