//! One-sided operations: reads and writes of each other's memory, and of one's own, with the model
//! that says what the memory holds afterwards, who may and what is counted.

use std::ptr;

use proptest::prelude::*;

use crate::action::len;
use crate::counters::Watching;
use crate::node::{Node, byte};
use crate::ops::{Home, call, close, fi};
use crate::{INJECT_LEN, Outcome, World, expect, pieces};

/// Bytes that each node exposes.
const MEMORY_LEN: usize = 110_000;

/// What the target lets an operation do, by the key that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Open,
    ReadOnly,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Read,
    ReadVector,
    /// With these flags.
    ReadMessage(u64),
    Write,
    WriteVector,
    WriteMessage(u64),
    WriteData,
    Inject,
    InjectData,
}

impl Form {
    fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadVector | Self::ReadMessage(_))
    }

    fn injects(self) -> bool {
        matches!(self, Self::Inject | Self::InjectData)
    }

    fn has_data(self) -> bool {
        match self {
            Self::WriteData | Self::InjectData => true,
            Self::WriteMessage(flags) => flags & fi::FI_REMOTE_CQ_DATA != 0,
            _ => false,
        }
    }

    /// Whether it asks for an entry where only what asks is shown.
    fn asks(self) -> bool {
        match self {
            Self::ReadMessage(flags) | Self::WriteMessage(flags) => flags & fi::FI_COMPLETION != 0,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote {
    from: usize,
    to: usize,
    form: Form,
    key: Key,
    offset: usize,
    len: usize,
}

impl Remote {
    /// The error that it ends with.
    fn error(&self) -> Option<i32> {
        match self.key {
            Key::Unknown => Some(fi::FI_EKEYREJECTED),
            Key::ReadOnly if !self.form.is_read() => Some(fi::FI_EACCES),
            _ if self.offset + self.len > MEMORY_LEN => Some(fi::FI_EINVAL),
            _ => None,
        }
    }
}

pub(crate) fn remote() -> impl Strategy<Value = Remote> {
    let flags = [
        0,
        fi::FI_COMPLETION,
        fi::FI_COMPLETION | fi::FI_DELIVERY_COMPLETE,
        fi::FI_COMPLETION | fi::FI_FENCE,
        fi::FI_FENCE,
    ];
    let writes = [fi::FI_REMOTE_CQ_DATA, fi::FI_COMPLETION | fi::FI_REMOTE_CQ_DATA];
    let read_flags = Vec::from(flags);
    let write_flags = [&flags[..], &writes[..]].concat();
    let form = prop_oneof![
        Just(Form::Read),
        Just(Form::ReadVector),
        proptest::sample::select(read_flags).prop_map(Form::ReadMessage),
        Just(Form::Write),
        Just(Form::WriteVector),
        proptest::sample::select(write_flags).prop_map(Form::WriteMessage),
        Just(Form::WriteData),
        Just(Form::Inject),
        Just(Form::InjectData),
    ];
    let key = prop_oneof![6 => Just(Key::Open), 1 => Just(Key::ReadOnly), 1 => Just(Key::Unknown)];
    (0usize..3, 0usize..3, form, key, 0usize..20_000, len())
        .prop_map(|(from, to, form, key, offset, len)| Remote { from, to, form, key, offset, len })
}

/// Memory that a node exposes under two keys, and what it must hold.
pub(crate) struct Exposed {
    memory: Box<[u8]>,
    mirror: Box<[u8]>,
    regions: [*mut fi::fid_mr; 2],
    /// The first key; the second, which does not let write, follows.
    key: u64,
    watching: Option<Watching>,
}

impl Exposed {
    /// Of the `n`-th node; `is_watched`: counters are bound to the memory itself, too.
    pub(crate) fn open(home: &Home, n: usize, is_watched: bool) -> Self {
        let mirror: Box<[u8]> = (0..MEMORY_LEN).map(|i| byte(n, i)).collect();
        let mut memory = mirror.clone();
        let key = 10 * (n as u64 + 1);
        let both = fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;
        let buf = memory.as_mut_ptr().cast();
        let regions = [(key, both), (key + 1, fi::FI_REMOTE_READ)].map(|(key, access)| {
            let (domain, mut mr) = (home.domain, ptr::null_mut());
            let fid = domain.cast::<fi::fid>();
            let none = ptr::null_mut();
            let code =
                call!(domain, mr.reg(fid, buf, MEMORY_LEN, access, 0, key, 0, &raw mut mr, none));
            assert_eq!(code, 0, "mr_reg");
            mr
        });
        let watching = is_watched.then(|| Watching::bind(home, regions));
        Self { memory, mirror, regions, key, watching }
    }

    pub(crate) fn close(self) {
        for region in self.regions {
            assert_eq!(close(region), 0, "mr");
        }
        self.watching.into_iter().for_each(Watching::close);
    }

    /// Whether the memory's own counters say what they must.
    pub(crate) fn is_counted(&self) -> bool {
        self.watching.as_ref().is_none_or(Watching::is_right)
    }

    /// Whether the memory is what it must be.
    pub(crate) fn is_right(&self) -> bool {
        self.memory == self.mirror
    }

    fn key(&self, key: Key) -> u64 {
        match key {
            Key::Open => self.key,
            Key::ReadOnly => self.key + 1,
            Key::Unknown => self.key + 2,
        }
    }
}

impl World {
    /// Carries out an operation, and compares what came of it.
    pub(crate) fn remote(&mut self, remote: Remote) -> Outcome {
        let Remote { from, to, form, offset, len, .. } = remote;
        let serial = self.next_serial();
        let context = serial << 1;
        let is_read = form.is_read();
        let fill = |i| if is_read { 0xee } else { byte(serial, i) };
        let mut buffer: Box<[u8]> = (0..len).map(fill).collect();
        let code = self.post_remote(&remote, serial, &mut buffer)?;
        if form.injects() && len > INJECT_LEN {
            return expect("an inject that is too long", code, -fi::FI_EMSGSIZE);
        }
        expect("a one-sided operation", code, 0)?;
        let error = remote.error();
        let range = offset..offset + len;
        let mut wanted = buffer.clone();
        if error.is_none() {
            let target = self.nodes[to].exposed();
            if let Some(watching) = &mut target.watching {
                watching.touched(remote.key == Key::ReadOnly, is_read);
            }
            if is_read {
                wanted.copy_from_slice(&target.mirror[range]);
            } else {
                target.mirror[range].copy_from_slice(&buffer);
                if form.has_data() {
                    self.nodes[to].remote_data.push_back((serial as u64, len));
                }
            }
            self.nodes[to].counts.remote(is_read);
        }
        self.nodes[from].counts.local(is_read, error.is_none());
        let node = &mut self.nodes[from];
        let shown = !node.is_selective || form.asks() || error.is_some();
        if !form.injects() && shown {
            let done = if is_read { fi::FI_READ } else { fi::FI_WRITE };
            node.one_sided.insert(context, (fi::FI_RMA | done, error));
        }
        self.until("a one-sided operation has ended", |world| {
            world.nodes[from].one_sided.is_empty()
                && world.nodes[to].remote_data.is_empty()
                && world.nodes.iter().all(Node::is_memory_right)
                && buffer == wanted
        })
    }

    fn post_remote(
        &mut self,
        remote: &Remote,
        serial: usize,
        buffer: &mut [u8],
    ) -> Result<isize, String> {
        let Remote { from, to, form, key, offset, len } = *remote;
        let key = self.nodes[to].exposed().key(key);
        let (ep, dest) = (self.nodes[from].ep, self.nodes[from].index[to]);
        let (buf, none) = (buffer.as_mut_ptr().cast::<libc::c_void>(), ptr::null_mut());
        let (at, data) = (offset as u64, serial as u64);
        let iov = pieces(buf.cast(), len, serial);
        let (first, count) = (iov.as_ptr(), iov.len());
        let context = ptr::without_provenance_mut(serial << 1);
        let target = fi::fi_rma_iov { addr: at, len, key };
        let mut msg = crate::ops::zeroed::<fi::fi_msg_rma>();
        (msg.msg_iov, msg.iov_count) = (first, count);
        (msg.rma_iov, msg.rma_iov_count) = (&raw const target, 1);
        (msg.addr, msg.context, msg.data) = (dest, context, data);
        let descs = ptr::null_mut();
        let call = |_: &Node| match form {
            Form::Read => call!(ep, rma.read(ep, buf, len, none, dest, at, key, context)),
            Form::ReadVector => {
                call!(ep, rma.readv(ep, first, descs, count, dest, at, key, context))
            }
            Form::ReadMessage(flags) => call!(ep, rma.readmsg(ep, &raw const msg, flags)),
            Form::Write => call!(ep, rma.write(ep, buf, len, none, dest, at, key, context)),
            Form::WriteVector => {
                call!(ep, rma.writev(ep, first, descs, count, dest, at, key, context))
            }
            Form::WriteMessage(flags) => call!(ep, rma.writemsg(ep, &raw const msg, flags)),
            Form::WriteData => {
                call!(ep, rma.writedata(ep, buf, len, none, data, dest, at, key, context))
            }
            Form::Inject => call!(ep, rma.inject(ep, buf, len, dest, at, key)),
            Form::InjectData => call!(ep, rma.injectdata(ep, buf, len, data, dest, at, key)),
        };
        self.post(call, from)
    }
}
