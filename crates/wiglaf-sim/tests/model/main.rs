//! The state machines of credit and of sessions, checked exhaustively over small configurations:
//! the product's own transport, every order of deliveries, losses, doubles, timeouts, receives
//! and restarts (stateright, a model checker).
//!
//! In every state that can be reached, messages have come once, whole and in order, to the
//! incarnation they were meant for, and no more lies unread than credit allows; and from every
//! one a fair network leads to the end. Each property is also shown to fail where what keeps it
//! is taken away: flow control, and the new epoch of a new incarnation.

mod app;
mod state;

use std::collections::HashMap;

use stateright::{Checker, Model, Property};
use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE, EAGER_LEN_MAX};
use wiglaf_wire::Epoch;

use state::{DOUBLES, LOSSES, REBIRTHS, RECEIVER, RESTARTS, SENDER, State, TIMEOUTS};

/// What is checked: bounds of everything that could go on for ever.
#[derive(Debug, Clone)]
struct Bounds {
    /// Eager messages that fill the receiver's credit beforehand, by length.
    before: Vec<usize>,
    /// Messages to be sent, by length.
    messages: Vec<usize>,
    losses: u8,
    doubles: u8,
    timeouts: u8,
    /// Of the receiver.
    restarts: u8,
    /// Of the sender.
    rebirths: u8,
    /// Off to see the property fail.
    flow_control: bool,
    /// Off to see the property fail.
    new_epochs: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    Send,
    Deliver(usize),
    Lose(usize),
    Double(usize),
    Timeout,
    Consume,
    Restart,
    Rebirth,
    Learn,
}

impl Bounds {
    /// The epoch of an incarnation of an end.
    fn epoch(&self, end: usize, incarnation: u64) -> Epoch {
        let incarnation = if self.new_epochs { incarnation } else { 0 };
        Epoch(1 + end as u64 + 2 * incarnation)
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.next_message < self.messages.len() {
            actions.push(Action::Send);
        }
        for (at, datagram) in state.network.iter().enumerate() {
            // Of equal datagrams, one.
            if at > 0 && state.network[at - 1] == *datagram {
                continue;
            }
            actions.push(Action::Deliver(at));
            if state.left[LOSSES] > 0 {
                actions.push(Action::Lose(at));
            }
            if state.left[DOUBLES] > 0 {
                actions.push(Action::Double(at));
            }
        }
        if state.left[TIMEOUTS] > 0 {
            actions.push(Action::Timeout);
        }
        if !state.apps[RECEIVER].unread.is_empty() {
            actions.push(Action::Consume);
        }
        if state.left[RESTARTS] > 0 {
            actions.push(Action::Restart);
        }
        if state.left[REBIRTHS] > 0 {
            actions.push(Action::Rebirth);
        }
        if state.known != state.apps[RECEIVER].incarnation {
            actions.push(Action::Learn);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Send => {
                if !next.send(self.messages[next.next_message]) {
                    return None;
                }
                next.next_message += 1;
            }
            Action::Deliver(at) => next.deliver(at),
            Action::Lose(at) => {
                next.network.remove(at);
                next.left[LOSSES] -= 1;
            }
            Action::Double(at) => {
                let datagram = next.network[at].clone();
                next.network.push(datagram);
                next.left[DOUBLES] -= 1;
            }
            Action::Timeout => {
                if !next.timeout() {
                    return None;
                }
                next.left[TIMEOUTS] -= 1;
            }
            Action::Consume => next.consume(),
            Action::Restart => {
                next.restart(self);
                next.left[RESTARTS] -= 1;
            }
            Action::Rebirth => {
                next.rebirth(self);
                next.left[REBIRTHS] -= 1;
            }
            Action::Learn => next.learn(self),
        }
        next.flush();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RIGHT, |_, state: &State| {
                state.apps.iter().all(|app| app.wrong.is_none())
            }),
            Property::always(BOUNDED, |_, state: &State| {
                let app = &state.apps[RECEIVER];
                app.peers.values().all(|peer| app.unread_charges(*peer) <= state.granted(*peer))
            }),
            Property::always(OWNED, |_, state: &State| {
                let view = state.ends[SENDER].peer(state.peer).expect("it was connected");
                let is_known = state.known == state.apps[RECEIVER].incarnation;
                let Some(sender) = state.sender().filter(|_| is_known) else { return true };
                let charges = state.apps[RECEIVER].unread_charges(sender);
                view.credit_left + charges <= state.granted(sender)
            }),
            Property::always(ENDS, |bounds: &Bounds, state: &State| {
                let mut state = state.clone();
                if state.known != state.apps[RECEIVER].incarnation {
                    state.learn(bounds);
                }
                state.calm(&bounds.messages, true)
            }),
        ]
    }
}

const RIGHT: &str = "each message comes once, in order, to whom it was meant for";
const BOUNDED: &str = "no more lies unread than credit allows";
const OWNED: &str = "what a sender may send fits beside what lies unread";
const ENDS: &str = "a fair network leads to the end";

/// Nearly all of the credit used up: 1024 bytes of charges are left.
fn nearly_full() -> Vec<usize> {
    let mut before = vec![EAGER_LEN_MAX / 2; 7];
    let charge = |len: usize| len as u64 + CREDIT_PER_MESSAGE;
    let left = CREDIT_INITIAL - 7 * charge(EAGER_LEN_MAX / 2) - 1024;
    before.push(left as usize - CREDIT_PER_MESSAGE as usize);
    before
}

fn credit() -> Bounds {
    Bounds {
        before: nearly_full(),
        messages: vec![600, 600],
        losses: 0,
        doubles: 0,
        timeouts: 1,
        restarts: 0,
        rebirths: 0,
        flow_control: true,
        new_epochs: true,
    }
}

fn sessions() -> Bounds {
    Bounds {
        before: Vec::new(),
        messages: vec![8, 8],
        losses: 1,
        doubles: 0,
        timeouts: 1,
        restarts: 1,
        rebirths: 0,
        flow_control: true,
        new_epochs: true,
    }
}

/// How many states there are, and which properties fail in some of them.
fn explore(bounds: Bounds) -> (usize, Vec<&'static str>) {
    let checker = bounds.checker().threads(2).spawn_bfs().join();
    let found: HashMap<_, _> = checker.discoveries();
    for (name, path) in &found {
        println!("not so: {name}, after {:?}", path.clone().into_actions());
    }
    (checker.unique_state_count(), found.into_keys().collect())
}

/// In more than so many states.
fn holds(bounds: Bounds, states_min: usize) {
    let (states, broken) = explore(bounds);
    println!("{states} states");
    assert!(broken.is_empty() && states > states_min, "{broken:?} in {states} states");
}

fn credit_holds(bounds: Bounds) {
    holds(bounds, 1000);
}

/// A shortage of credit, a rendezvous, and a grant or anything else that is lost and sent again.
#[test]
fn credit_holds_in_every_order_of_events() {
    credit_holds(Bounds { losses: 1, timeouts: 2, ..credit() });
}

/// The message that is pulled comes in two segments.
#[test]
fn segments_come_to_their_places_in_every_order_of_events() {
    credit_holds(Bounds { messages: vec![600, 700], losses: 1, ..credit() });
}

/// What is lost, or comes twice and late, may have been for a receiver that is dead by then.
#[test]
fn credit_holds_in_every_order_of_events_with_a_restart() {
    credit_holds(Bounds { losses: 1, restarts: 1, ..credit() });
    credit_holds(Bounds { doubles: 1, restarts: 1, ..credit() });
}

#[test]
#[ignore = "takes half a minute: cargo test -p wiglaf-sim --test model -- --ignored"]
fn credit_holds_in_every_order_of_losses_and_doubles() {
    credit_holds(Bounds { losses: 1, doubles: 1, ..credit() });
}

#[test]
fn sessions_hold_in_every_order_of_events() {
    holds(sessions(), 100);
}

/// What an old sender left under way may come when its successor has begun.
#[test]
fn sessions_hold_in_every_order_of_events_when_senders_restart() {
    for (losses, doubles, restarts) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        holds(Bounds { losses, doubles, restarts, rebirths: 1, ..sessions() }, 100);
    }
}

/// The credit that an old sender used up is its own.
#[test]
fn credit_holds_in_every_order_of_events_when_senders_restart() {
    credit_holds(Bounds { losses: 1, rebirths: 1, ..credit() });
    credit_holds(Bounds { doubles: 1, rebirths: 1, ..credit() });
}

#[test]
fn without_flow_control_the_checker_finds_too_much_unread() {
    let (_, broken) = explore(Bounds { flow_control: false, ..credit() });
    assert!(broken.contains(&BOUNDED), "{broken:?}");
}

#[test]
fn without_new_epochs_the_checker_finds_messages_of_the_dead() {
    let (_, broken) = explore(Bounds { new_epochs: false, ..sessions() });
    assert!(broken.contains(&RIGHT) || broken.contains(&ENDS), "{broken:?}");
    let reborn = Bounds { new_epochs: false, restarts: 0, rebirths: 1, ..sessions() };
    let (_, broken) = explore(reborn);
    assert!(broken.contains(&RIGHT) || broken.contains(&ENDS), "{broken:?}");
}
