//! Random lives of objects: opened, bound, enabled and closed in any order. The model knows who holds
//! whom; who is held cannot be closed.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use crate::ops::{self, Home, fi};

/// Kinds of objects in a domain, and how many of each a life has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Av,
    Cq,
    Cntr,
    Eq,
    Ep,
}

const KINDS: [Kind; 5] = [Kind::Av, Kind::Cq, Kind::Cntr, Kind::Eq, Kind::Ep];
const PLACES: usize = 2;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Open(Kind, usize),
    Close(Kind, usize),
    Bind { ep: usize, kind: Kind, n: usize, send: bool, recv: bool },
    Enable(usize),
    CloseDomain,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let kind = || proptest::sample::select(&KINDS[..]);
    let n = || 0..PLACES;
    prop_oneof![
        4 => (kind(), n()).prop_map(|(kind, n)| Step::Open(kind, n)),
        3 => (kind(), n()).prop_map(|(kind, n)| Step::Close(kind, n)),
        6 => (n(), kind(), n(), any::<bool>(), any::<bool>())
            .prop_map(|(ep, kind, n, send, recv)| Step::Bind { ep, kind, n, send, recv }),
        2 => n().prop_map(Step::Enable),
        1 => Just(Step::CloseDomain),
    ]
}

/// What an endpoint holds.
#[derive(Default, Clone)]
struct Bound {
    av: Option<usize>,
    tx: Option<usize>,
    rx: Option<usize>,
    eq: Option<usize>,
    counters: Vec<(usize, bool, bool)>,
    is_enabled: bool,
}

struct Life {
    home: Home,
    /// Handles by kind and place.
    open: [[Option<*mut fi::fid>; PLACES]; KINDS.len()],
    endpoints: [Bound; PLACES],
}

fn expect(what: &Step, got: i32, want: i32) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what:?}: {got} instead of {want}")) }
}

impl Life {
    fn open(&mut self, kind: Kind, n: usize) {
        if self.open[kind as usize][n].is_some() {
            return;
        }
        let home = &self.home;
        let handle = match kind {
            Kind::Av => home.av().cast(),
            Kind::Cq => home.cq(fi::FI_CQ_FORMAT_MSG).cast(),
            Kind::Cntr => home.cntr().cast(),
            Kind::Eq => home.eq().cast(),
            Kind::Ep => home.ep().cast(),
        };
        if kind == Kind::Ep {
            self.endpoints[n] = Bound::default();
        }
        self.open[kind as usize][n] = Some(handle);
    }

    fn is_held(&self, kind: Kind, n: usize) -> bool {
        let alive = |ep: &usize| self.open[Kind::Ep as usize][*ep].is_some();
        (0..PLACES).filter(alive).any(|ep| {
            let bound = &self.endpoints[ep];
            match kind {
                Kind::Av => bound.av == Some(n),
                Kind::Cq => bound.tx == Some(n) || bound.rx == Some(n),
                Kind::Eq => bound.eq == Some(n),
                Kind::Cntr => bound.counters.iter().any(|(counter, ..)| *counter == n),
                Kind::Ep => false,
            }
        })
    }

    fn close(&mut self, step: &Step, kind: Kind, n: usize) -> Result<(), String> {
        let Some(handle) = self.open[kind as usize][n] else { return Ok(()) };
        let want = if self.is_held(kind, n) { -fi::FI_EBUSY } else { 0 };
        expect(step, ops::close(handle), want)?;
        if want == 0 {
            self.open[kind as usize][n] = None;
        }
        Ok(())
    }

    fn bind(
        &mut self,
        step: &Step,
        ep: usize,
        (kind, n): (Kind, usize),
        (send, recv): (bool, bool),
    ) -> Result<(), String> {
        let Some(handle) = self.open[Kind::Ep as usize][ep] else { return Ok(()) };
        let Some(other) = self.open[kind as usize][n] else { return Ok(()) };
        let flags = if send { fi::FI_SEND } else { 0 } | if recv { fi::FI_RECV } else { 0 };
        let flags = if matches!(kind, Kind::Cq | Kind::Cntr) { flags } else { 0 };
        let got = ops::bind(handle.cast(), other, flags);
        let bound = &mut self.endpoints[ep];
        if bound.is_enabled {
            return expect(step, got, -fi::FI_EOPBADSTATE);
        }
        let is_taken = match kind {
            Kind::Av => bound.av.is_some(),
            Kind::Cq => send && bound.tx.is_some() || recv && bound.rx.is_some() || !send && !recv,
            Kind::Ep => true,
            Kind::Eq => bound.eq.is_some(),
            Kind::Cntr => false,
        };
        if is_taken {
            return expect(step, got, -fi::FI_EINVAL);
        }
        expect(step, got, 0)?;
        match kind {
            Kind::Av => bound.av = Some(n),
            Kind::Cq => {
                bound.tx = if send { Some(n) } else { bound.tx };
                bound.rx = if recv { Some(n) } else { bound.rx };
            }
            Kind::Eq => bound.eq = Some(n),
            Kind::Cntr => bound.counters.push((n, send, recv)),
            Kind::Ep => {}
        }
        Ok(())
    }

    fn enable(&mut self, step: &Step, ep: usize) -> Result<(), String> {
        let Some(handle) = self.open[Kind::Ep as usize][ep] else { return Ok(()) };
        let bound = &mut self.endpoints[ep];
        let has = |cq: Option<usize>, counts: fn(&(usize, bool, bool)) -> bool| {
            cq.is_some() || bound.counters.iter().any(counts)
        };
        let want = if bound.is_enabled {
            -fi::FI_EOPBADSTATE
        } else if bound.av.is_none() {
            -fi::FI_ENOAV
        } else if !has(bound.tx, |c| c.1) || !has(bound.rx, |c| c.2) {
            -fi::FI_ENOCQ
        } else {
            0
        };
        bound.is_enabled |= want == 0;
        expect(step, ops::enable(handle.cast()), want)
    }

    fn close_domain(&self, step: &Step) -> Result<(), String> {
        // An event queue belongs to the fabric.
        let in_domain = [Kind::Av, Kind::Cq, Kind::Cntr, Kind::Ep];
        if in_domain.iter().all(|&kind| self.open[kind as usize].iter().all(Option::is_none)) {
            return Ok(()); // it would really be closed
        }
        expect(step, ops::close(self.home.domain), -fi::FI_EBUSY)
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Open(kind, n) => {
                self.open(kind, n);
                Ok(())
            }
            Step::Close(kind, n) => self.close(step, kind, n),
            Step::Bind { ep, kind, n, send, recv } => self.bind(step, ep, (kind, n), (send, recv)),
            Step::Enable(ep) => self.enable(step, ep),
            Step::CloseDomain => self.close_domain(step),
        }
    }
}

/// Takes the steps, then closes everything in the order that works.
pub(crate) fn live(steps: &[Step]) -> Result<(), String> {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let open = [[None; PLACES]; KINDS.len()];
    let mut life = Life { home, open, endpoints: Default::default() };
    let outcome = steps.iter().try_for_each(|step| life.take(step));
    let closed =
        [Kind::Ep, Kind::Av, Kind::Cq, Kind::Cntr, Kind::Eq].iter().try_for_each(|&kind| {
            (0..PLACES).try_for_each(|n| life.close(&Step::Close(kind, n), kind, n))
        });
    outcome.and(closed)
}
