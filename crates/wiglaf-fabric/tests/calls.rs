//! Random sequences of calls against a model: three endpoints of this process, called through the
//! provider's operation tables. They send to each other and to themselves, and read and write each
//! other's memory; two of them count.
//!
//! The sequences follow from a seed, which a failure prints. `WIGLAF_SEED` begins with another one,
//! `WIGLAF_CASES` makes more of them.

#[path = "calls/action.rs"]
mod action;
#[path = "calls/counters.rs"]
mod counters;
#[path = "calls/model.rs"]
mod model;
#[path = "calls/node.rs"]
mod node;
#[path = "calls/objects.rs"]
mod objects;
#[path = "common/ops.rs"]
mod ops;
#[path = "calls/remote.rs"]
mod remote;
#[path = "calls/wrong.rs"]
mod wrong;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use action::{Action, LENS, Looked, RecvForm, SendForm, Sent, sequence};
use model::{Class, Message, Posted, Wish};
use node::{Node, byte};
use ops::{Home, UNSPEC, call, fi, in_child};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use wiglaf_testnet::Pair;
use wrong::wrong;

/// Tags of marks; no other receive matches them.
const MARK: u64 = 1 << 63;
/// Longest injected message, and most pieces of memory, that the provider promises.
const INJECT_LEN: usize = 1280;
const IOV_LIMIT: usize = 4;
/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The endpoints, and what has been done with them.
struct World {
    nodes: Vec<Node>,
    /// Of each node; several may share one.
    homes: Vec<Arc<Home>>,
    /// Makes contexts and contents.
    serial: usize,
    /// Contexts of all receives so far, by node.
    contexts: Vec<Vec<usize>>,
}

type Outcome = Result<(), String>;

fn expect(what: &str, got: isize, want: i32) -> Outcome {
    if got == want as isize { Ok(()) } else { Err(format!("{what}: {got} instead of {want}")) }
}

/// `len` bytes at `base` in one to four pieces, some of them empty.
fn pieces(base: *const u8, len: usize, serial: usize) -> Vec<libc::iovec> {
    let count = 1 + serial % IOV_LIMIT;
    let mut rest = (base.cast_mut(), len);
    let mut all = Vec::new();
    for n in 0..count {
        let part = if n + 1 == count { rest.1 } else { (serial * 37 + n * 511) % (rest.1 + 1) };
        let iov_base = if part == 0 { ptr::null_mut() } else { rest.0.cast() };
        all.push(libc::iovec { iov_base, iov_len: part });
        rest = (rest.0.wrapping_add(part), rest.1 - part);
    }
    all
}

impl World {
    /// In one domain; `is_watched`: memory has counters, too, with which all endpoints of the domain
    /// go another way.
    fn open(is_watched: bool) -> Self {
        let home = Arc::new(Home::open(Ipv4Addr::LOCALHOST));
        let nodes = (0..3).map(|n| node(&home, n, is_watched)).collect();
        Self::of(nodes, vec![home; 3])
    }

    /// Two of them at one end of a wire, one at the other.
    fn open_across(wire: &Pair, is_watched: bool) -> Self {
        let open_home = |at: &wiglaf_testnet::Node| {
            let ip = at.ip;
            Arc::new(at.run(move || Home::open(ip)))
        };
        let (a, b) = (open_home(&wire.a), open_home(&wire.b));
        let nodes = vec![
            wire.a.run(|| node(&a, 0, is_watched)),
            wire.b.run(|| node(&b, 1, is_watched)),
            wire.a.run(|| node(&a, 2, is_watched)),
        ];
        Self::of(nodes, vec![Arc::clone(&a), b, a])
    }

    fn of(mut nodes: Vec<Node>, homes: Vec<Arc<Home>>) -> Self {
        let names: Vec<[u8; 16]> = nodes.iter().map(|node| name(node.ep)).collect();
        for (n, node) in nodes.iter_mut().enumerate() {
            // So that indices differ from node to node.
            for _ in 0..n {
                let gone = insert(node.av, &names[0]);
                remove(node.av, gone);
            }
            node.index = names.iter().map(|name| insert(node.av, name)).collect();
        }
        Self { nodes, homes, serial: 0, contexts: vec![Vec::new(); 3] }
    }

    fn next_serial(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }

    fn read_all(&mut self) -> Outcome {
        self.nodes.iter_mut().try_for_each(Node::read)
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Outcome {
        let began = Instant::now();
        while !is_so(self) {
            self.read_all()?;
            if began.elapsed() > PATIENCE {
                return Err(format!("{what}: still not so"));
            }
        }
        Ok(())
    }

    /// Makes a call again until there is room for what it posts.
    fn post(&mut self, mut call: impl FnMut(&Node) -> isize, at: usize) -> Result<isize, String> {
        let began = Instant::now();
        loop {
            let code = call(&self.nodes[at]);
            if code != -(fi::FI_EAGAIN as isize) || began.elapsed() > PATIENCE {
                return Ok(code);
            }
            self.read_all()?;
        }
    }

    fn act(&mut self, action: &Action) -> Outcome {
        match *action {
            Action::Send { from, to, sent, count } => self.send(from, to, sent, count),
            Action::Recv { at, look, form, len } => self.recv(at, look, form, len),
            Action::Multi { at, from, len } => self.multi(at, from, len),
            Action::Peek { at, look, claim, discard } => self.peek(at, look, claim, discard),
            Action::Claimed { at, which, discard, len } => self.claimed(at, which, discard, len),
            Action::Cancel { at, which } => self.cancel(at, which),
            Action::Read { at } => self.nodes[at].read(),
            Action::Remote(remote) => self.remote(remote),
            Action::Wrong { at, what } => wrong(&self.nodes[at], &self.homes[at], what),
        }
    }

    fn send(&mut self, from: usize, to: usize, sent: Sent, count: usize) -> Outcome {
        let mut messages = Vec::new();
        for _ in 0..count {
            messages.extend(self.post_send(from, to, sent)?);
        }
        // Until the mark has come, whether they are there would depend on timing.
        self.mark(from, to)?;
        messages.into_iter().for_each(|message| self.nodes[to].model.arrive(message));
        self.nodes[to].read()
    }

    /// Posts a send; the message, unless it is refused as it must be.
    fn post_send(&mut self, from: usize, to: usize, sent: Sent) -> Result<Option<Message>, String> {
        let Sent { is_tagged, form, tag, len } = sent;
        let serial = self.next_serial();
        let context = serial << 1;
        let payload: Box<[u8]> = (0..len).map(|i| byte(serial, i)).collect();
        let data = serial as u64 | 1 << 63;
        let node = &self.nodes[from];
        let (ep, dest, buf) = (node.ep, node.index[to], payload.as_ptr().cast::<libc::c_void>());
        let iov = pieces(payload.as_ptr(), len, serial);
        let op_context = ptr::without_provenance_mut(context);
        let none = ptr::null_mut();
        let code = self.post(
            |_| match (is_tagged, form) {
                (false, SendForm::Plain) => {
                    call!(ep, msg.send(ep, buf, len, none, dest, op_context))
                }
                (true, SendForm::Plain) => {
                    call!(ep, tagged.send(ep, buf, len, none, dest, tag, op_context))
                }
                (false, SendForm::Vector) => call!(
                    ep,
                    msg.sendv(ep, iov.as_ptr(), ptr::null_mut(), iov.len(), dest, op_context)
                ),
                (true, SendForm::Vector) => call!(
                    ep,
                    tagged.sendv(
                        ep,
                        iov.as_ptr(),
                        ptr::null_mut(),
                        iov.len(),
                        dest,
                        tag,
                        op_context
                    )
                ),
                (false, SendForm::Message(flags)) => {
                    let msg = untagged_message(&iov, dest, op_context, data);
                    call!(ep, msg.sendmsg(ep, &raw const msg, flags))
                }
                (true, SendForm::Message(flags)) => {
                    let msg = tagged_message(&iov, dest, (tag, 0), op_context, data);
                    call!(ep, tagged.sendmsg(ep, &raw const msg, flags))
                }
                (false, SendForm::Inject) => call!(ep, msg.inject(ep, buf, len, dest)),
                (true, SendForm::Inject) => call!(ep, tagged.inject(ep, buf, len, dest, tag)),
                (false, SendForm::Data) => {
                    call!(ep, msg.senddata(ep, buf, len, none, data, dest, op_context))
                }
                (true, SendForm::Data) => {
                    call!(ep, tagged.senddata(ep, buf, len, none, data, dest, tag, op_context))
                }
                (false, SendForm::InjectData) => {
                    call!(ep, msg.injectdata(ep, buf, len, data, dest))
                }
                (true, SendForm::InjectData) => {
                    call!(ep, tagged.injectdata(ep, buf, len, data, dest, tag))
                }
            },
            from,
        )?;
        if form.is_refused() {
            expect("a send with a flag that is not offered", code, -fi::FI_EBADFLAGS)?;
            return Ok(None);
        }
        if form.injects() && len > INJECT_LEN {
            expect("an inject that is too long", code, -fi::FI_EMSGSIZE)?;
            return Ok(None);
        }
        expect("a send", code, 0)?;
        self.nodes[from].counts.sent();
        let class = if is_tagged { Class::Tagged } else { Class::Untagged };
        if form.is_shown(self.nodes[from].is_selective) {
            self.nodes[from].sending.insert(context, class);
        }
        if !form.injects() {
            // It may be read until the end; the odd contexts of buffers are free.
            self.nodes[from].buffers.insert(context | 1, payload);
        }
        let tag = if is_tagged { tag } else { 0 };
        let data = form.has_data().then_some(data);
        Ok(Some(Message { seed: serial, from, class, tag, data, len }))
    }

    /// Returns when all that `from` has sent to `to` so far has arrived.
    fn mark(&mut self, from: usize, to: usize) -> Outcome {
        let serial = self.next_serial();
        let (context, tag) = (serial << 1 | 1, MARK | serial as u64);
        let (ep, source) = (self.nodes[to].ep, self.nodes[to].index[from]);
        let msg = tagged_message(&[], source, (tag, 0), ptr::without_provenance_mut(context), 0);
        let code = call!(ep, tagged.recvmsg(ep, &raw const msg, fi::FI_COMPLETION));
        expect("the receive of a mark", code, 0)?;
        let dest = self.nodes[from].index[to];
        let inject =
            |node: &Node| call!(node.ep, tagged.inject(node.ep, ptr::null(), 0, dest, tag));
        expect("a mark", self.post(inject, from)?, 0)?;
        self.nodes[from].counts.sent();
        self.nodes[to].model.counts.0 += 1;
        // What was sent before it completes at the receiver before it: that is not yet in the model.
        let began = Instant::now();
        while !self.nodes[to].marks.remove(&context) {
            for n in 0..3 {
                if n == to { self.nodes[n].read_marks(context)? } else { self.nodes[n].read()? }
            }
            if began.elapsed() > PATIENCE {
                return Err("a mark has not arrived".to_owned());
            }
        }
        Ok(())
    }

    fn wish(&self, look: Looked) -> Wish {
        let class = if look.is_tagged { Class::Tagged } else { Class::Untagged };
        Wish { class, from: look.from, tag: look.tag, ignore: look.ignore }
    }

    fn source(&self, at: usize, from: Option<usize>) -> fi::fi_addr_t {
        from.map_or(UNSPEC, |from| self.nodes[at].index[from])
    }

    fn new_context(&mut self, at: usize) -> usize {
        let context = self.next_serial() << 1;
        self.contexts[at].push(context);
        context
    }

    fn recv(&mut self, at: usize, look: Looked, form: RecvForm, len: usize) -> Outcome {
        let context = self.new_context(at);
        let source = self.source(at, look.from);
        let wish = self.wish(look);
        let node = &mut self.nodes[at];
        let buf = node.buffer(context, len);
        let (ep, none, Looked { tag, ignore, .. }) = (node.ep, ptr::null_mut(), look);
        let op_context = ptr::without_provenance_mut(context);
        let iov = pieces(buf.cast(), len, context >> 1);
        let code = match (look.is_tagged, form) {
            (false, RecvForm::Plain) => {
                call!(ep, msg.recv(ep, buf, len, none, source, op_context))
            }
            (true, RecvForm::Plain) => {
                call!(ep, tagged.recv(ep, buf, len, none, source, tag, ignore, op_context))
            }
            (false, RecvForm::Vector) => call!(
                ep,
                msg.recvv(ep, iov.as_ptr(), ptr::null_mut(), iov.len(), source, op_context)
            ),
            (true, RecvForm::Vector) => call!(
                ep,
                tagged.recvv(
                    ep,
                    iov.as_ptr(),
                    ptr::null_mut(),
                    iov.len(),
                    source,
                    tag,
                    ignore,
                    op_context
                )
            ),
            (false, RecvForm::Message(shown)) => {
                let msg = untagged_message(&iov, source, op_context, 0);
                call!(ep, msg.recvmsg(ep, &raw const msg, completion(shown)))
            }
            (true, RecvForm::Message(shown)) => {
                let msg = tagged_message(&iov, source, (tag, ignore), op_context, 0);
                call!(ep, tagged.recvmsg(ep, &raw const msg, completion(shown)))
            }
        };
        expect("a receive", code, 0)?;
        let asked = matches!(form, RecvForm::Message(true));
        let shown = !node.is_selective || asked;
        node.model.post(Posted { context, wish, room: len, multi: None, shown });
        Ok(())
    }

    fn multi(&mut self, at: usize, from: Option<usize>, len: usize) -> Outcome {
        let context = self.new_context(at);
        let source = self.source(at, from);
        let node = &mut self.nodes[at];
        let buf = node.buffer(context, len);
        let iov = [libc::iovec { iov_base: buf, iov_len: len }];
        let msg = untagged_message(&iov, source, ptr::without_provenance_mut(context), 0);
        let flags = fi::FI_MULTI_RECV | fi::FI_COMPLETION;
        let code = call!(node.ep, msg.recvmsg(node.ep, &raw const msg, flags));
        expect("a receive of several messages", code, 0)?;
        let wish = Wish { class: Class::Untagged, from, tag: 0, ignore: 0 };
        node.model.post(Posted { context, wish, room: len, multi: Some(0), shown: true });
        Ok(())
    }

    fn peek(&mut self, at: usize, look: Looked, claim: bool, discard: bool) -> Outcome {
        let context = self.new_context(at);
        let source = self.source(at, look.from);
        let wish = self.wish(look);
        let node = &mut self.nodes[at];
        let op_context = ptr::without_provenance_mut(context);
        let mut flags = fi::FI_PEEK | fi::FI_COMPLETION;
        flags |= if claim { fi::FI_CLAIM } else { 0 };
        flags |= if discard { fi::FI_DISCARD } else { 0 };
        let code = if look.is_tagged {
            let tag = (look.tag, look.ignore);
            let msg = tagged_message(&[], source, tag, op_context, 0);
            call!(node.ep, tagged.recvmsg(node.ep, &raw const msg, flags))
        } else {
            let msg = untagged_message(&[], source, op_context, 0);
            call!(node.ep, msg.recvmsg(node.ep, &raw const msg, flags))
        };
        expect("a peek", code, 0)?;
        node.model.peek(context, &wish, claim, discard);
        Ok(())
    }

    /// Receives or drops what a peek has claimed; without any, that is refused.
    fn claimed(&mut self, at: usize, which: usize, discard: bool, len: usize) -> Outcome {
        // A claim may be taken only when its peek is known to have found something.
        self.nodes[at].read()?;
        let claims = self.nodes[at].model.claims();
        let unclaimed = self.next_serial() << 1;
        let context = if claims.is_empty() { unclaimed } else { claims[which % claims.len()] };
        let node = &mut self.nodes[at];
        // What is to be discarded has no buffer: none is looked for, wherever it is said to be.
        let buf = if discard { ptr::null_mut() } else { node.buffer(context, len) };
        let iov = [libc::iovec { iov_base: buf, iov_len: len }];
        let mut flags = fi::FI_CLAIM | fi::FI_COMPLETION;
        flags |= if discard { fi::FI_DISCARD } else { 0 };
        let op_context = ptr::without_provenance_mut(context);
        // Only the context matters, in either table.
        let code = if len.is_multiple_of(2) {
            let msg = tagged_message(&iov, UNSPEC, (0, 0), op_context, 0);
            call!(node.ep, tagged.recvmsg(node.ep, &raw const msg, flags))
        } else {
            let msg = untagged_message(&iov, UNSPEC, op_context, 0);
            call!(node.ep, msg.recvmsg(node.ep, &raw const msg, flags))
        };
        if claims.is_empty() {
            return expect("a claim of nothing", code, -fi::FI_ENOMSG);
        }
        expect("a claim", code, 0)?;
        node.model.take_claimed(context, (!discard).then_some(len), true);
        Ok(())
    }

    fn cancel(&mut self, at: usize, which: usize) -> Outcome {
        let Some(&context) = self.contexts[at].get(which % self.contexts[at].len().max(1)) else {
            return Ok(());
        };
        let node = &mut self.nodes[at];
        let op_context = ptr::without_provenance_mut(context);
        let code = call!(node.ep, ops.cancel(node.ep.cast(), op_context));
        let want = if node.model.cancel(context) { 0 } else { -fi::FI_ENOENT };
        expect("a cancel", code, want)
    }

    /// Receives all that nobody has asked for, and waits for everything that is to complete.
    fn finish(&mut self) -> Outcome {
        for at in 0..3 {
            while let Some(message) = self.nodes[at].model.oldest().copied() {
                let look = Looked {
                    is_tagged: message.class == Class::Tagged,
                    from: None,
                    tag: 0,
                    ignore: !MARK,
                };
                self.recv(at, look, RecvForm::Message(true), message.len)?;
            }
            for context in self.nodes[at].model.claims() {
                let which =
                    self.nodes[at].model.claims().iter().position(|&c| c == context).unwrap_or(0);
                self.claimed(at, which, false, LENS[9])?;
            }
        }
        self.until("everything has completed", |world| {
            world.nodes.iter().all(|node| {
                node.sending.is_empty() && node.model.wanted.values().all(VecDeque::is_empty)
            })
        })?;
        self.until("what is not shown has arrived too", |world| {
            world.nodes.iter().all(|node| {
                let mut silent = node.model.silent.iter();
                silent.all(|&(context, at, seed, len)| {
                    node.compare_contents(context, at, seed, len).is_ok()
                })
            })
        })?;
        self.until("everything has been counted", |world| {
            world.nodes.iter().all(Node::is_counted)
        })?;
        for _ in 0..50 {
            self.read_all()?; // nothing else may come
        }
        match self.nodes.iter().all(|node| node.is_counted() && node.is_memory_right()) {
            true => Ok(()),
            false => Err("something was counted or written late".to_owned()),
        }
    }

    /// All at once: each waits for acknowledgements of the others.
    fn close(self) {
        std::thread::scope(|scope| {
            for node in self.nodes {
                scope.spawn(move || node.close());
            }
        });
        drop(self.homes);
    }
}

/// The `n`-th node. Queues show what their formats have; one shows only what asks for it.
fn node(home: &Home, n: usize, is_watched: bool) -> Node {
    match n {
        0 => Node::open(home, n, fi::FI_CQ_FORMAT_TAGGED, false, is_watched),
        1 => Node::open(home, n, fi::FI_CQ_FORMAT_DATA, false, is_watched),
        _ => Node::open(home, n, fi::FI_CQ_FORMAT_MSG, true, is_watched),
    }
}

fn completion(shown: bool) -> u64 {
    if shown { fi::FI_COMPLETION } else { 0 }
}

fn untagged_message(
    iov: &[libc::iovec],
    addr: fi::fi_addr_t,
    context: *mut libc::c_void,
    data: u64,
) -> fi::fi_msg {
    let mut msg = ops::zeroed::<fi::fi_msg>();
    (msg.msg_iov, msg.iov_count) = (iov.as_ptr(), iov.len());
    (msg.addr, msg.context, msg.data) = (addr, context, data);
    msg
}

fn tagged_message(
    iov: &[libc::iovec],
    addr: fi::fi_addr_t,
    (tag, ignore): (u64, u64),
    context: *mut libc::c_void,
    data: u64,
) -> fi::fi_msg_tagged {
    let mut msg = ops::zeroed::<fi::fi_msg_tagged>();
    (msg.msg_iov, msg.iov_count) = (iov.as_ptr(), iov.len());
    (msg.addr, msg.context, msg.data) = (addr, context, data);
    (msg.tag, msg.ignore) = (tag, ignore);
    msg
}

fn name(ep: *mut fi::fid_ep) -> [u8; 16] {
    let (mut name, mut len) = ([0; 16], 0);
    let too_small = call!(ep, cm.getname(ep.cast(), ptr::null_mut(), &raw mut len));
    assert_eq!((too_small, len), (-fi::FI_ETOOSMALL, 16));
    let code = call!(ep, cm.getname(ep.cast(), name.as_mut_ptr().cast(), &raw mut len));
    assert_eq!((code, len), (0, 16));
    name
}

fn insert(av: *mut fi::fid_av, name: &[u8; 16]) -> fi::fi_addr_t {
    let (mut index, at) = (UNSPEC, name.as_ptr().cast());
    assert_eq!(call!(av, ops.insert(av, at, 1, &raw mut index, 0, ptr::null_mut())), 1);
    index
}

fn remove(av: *mut fi::fid_av, mut index: fi::fi_addr_t) {
    assert_eq!(call!(av, ops.remove(av, &raw mut index, 1, 0)), 0);
}

/// Runs sequences that follow from a seed; a failure names it.
fn run<S: Strategy>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> Outcome) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("WIGLAF_SEED").unwrap_or(1);
    let cases = number("WIGLAF_CASES").map_or(cases, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let outcome = runner.run(strategy, |value| check(value).map_err(TestCaseError::fail));
    if let Err(why) = outcome {
        panic!("WIGLAF_SEED={seed} WIGLAF_CASES={cases}: {why}");
    }
}

#[test]
#[ignore = "run by the tests below, each link in a process of its own"]
fn messages() {
    run(40, &sequence(), |(is_watched, actions)| play(World::open(is_watched), &actions));
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn messages_across_a_wire() {
    let Some(wire) = Pair::or_skip(1500) else { return };
    run(25, &sequence(), |(is_watched, actions)| {
        play(World::open_across(&wire, is_watched), &actions)
    });
}

fn play(mut world: World, actions: &[Action]) -> Outcome {
    let outcome =
        actions.iter().try_for_each(|action| world.act(action)).and_then(|()| world.finish());
    world.close();
    outcome
}

#[test]
fn messages_over_shm() {
    in_child("messages", "shm", &[]);
}

#[test]
fn messages_over_udp() {
    in_child("messages", "udp", &[]);
}

#[test]
fn messages_over_packet() {
    in_child("messages_across_a_wire", "packet", &[]);
}

#[test]
fn lives_of_objects() {
    run(60, &vec(objects::step(), 1..80), |steps| objects::live(&steps));
}
