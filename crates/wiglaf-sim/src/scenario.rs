//! What a run consists of, how it follows from a seed, and how a run that
//! fails is made small.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use wiglaf_wire::NUMBER_BITS;

use crate::network::Faults;
use crate::random::Random;
use crate::world::{Load, Report, World};

/// Something that befalls endpoints while they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The endpoints of the set, by bits, do not reach the others.
    Partition {
        /// The set.
        set: u64,
        /// They are reached by the others all the same.
        one_way: bool,
    },
    /// A process does not run; what arrives waits in its socket while there is room.
    Pause {
        /// Which endpoint.
        node: usize,
    },
    /// A process dies without a word, and another one takes its place and port.
    Restart {
        /// Which endpoint.
        node: usize,
    },
    /// A process dies without a word, and its port refuses what comes until another one takes its place.
    Death {
        /// Which endpoint.
        node: usize,
    },
}

/// When something befalls them, and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mishap {
    /// Since the beginning of the run.
    pub after: Duration,
    /// For a restart, nothing.
    pub lasts: Duration,
    /// What.
    pub what: What,
}

/// All that a run follows from.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Decides what the rest leaves open.
    pub seed: u64,
    /// How many endpoints there are, 2 to 64.
    pub endpoints: usize,
    /// What the network does all the time.
    pub faults: Faults,
    /// What is sent.
    pub load: Load,
    /// By so much the fastest and the slowest clock may be wrong, in millionths.
    pub skew_ppm: u32,
    /// Whether all datagrams are encrypted.
    pub encrypt: bool,
    /// Where the numbers of packets and credit begin: there are places where the bits of them that
    /// travel end.
    pub numbers_from: u64,
    /// Receivers want less of some announced messages than there is, and nothing of others.
    pub short_buffers: bool,
    /// Processes lose their core for moments, and their sockets are too small for what comes meanwhile;
    /// they learn that there was more.
    pub overruns: bool,
    /// What happens besides.
    pub mishaps: Vec<Mishap>,
}

/// Virtual time that any run may take.
const LIMIT: Duration = Duration::from_secs(3600);

/// What is left out of a scenario, by name; `Scenario::without` knows them, and numbers of mishaps.
const PARTS: [&str; 11] = [
    "drop",
    "duplicate",
    "corrupt",
    "reorder",
    "burst",
    "skew",
    "encryption",
    "numbers",
    "short",
    "overruns",
    "narrow",
];

impl Scenario {
    /// Faults and load alone, with true clocks.
    #[must_use]
    pub fn plain(seed: u64, endpoints: usize, faults: Faults, load: Load) -> Self {
        Self {
            seed,
            endpoints,
            faults,
            load,
            skew_ppm: 0,
            encrypt: false,
            numbers_from: 0,
            short_buffers: false,
            overruns: false,
            mishaps: Vec::new(),
        }
    }

    /// Everything about it follows from the seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x57);
        let mut up_to = |limit: f64| limit * random.below(1000) as f64 / 1000.0;
        let mut faults = Faults {
            drop: up_to(0.35),
            duplicate: up_to(0.2),
            corrupt: up_to(0.05),
            reorder: up_to(0.3),
            burst: up_to(0.004),
            burst_time: Duration::from_nanos(1 + up_to(20e6) as u64),
            latency: Duration::from_nanos(1000 + up_to(50_000.0) as u64),
            jitter: Duration::from_nanos(1 + up_to(2_000_000.0) as u64),
            carries: None,
            carries_all_for: Duration::ZERO,
        };
        if random.chance(0.5) {
            faults.burst = 0.0;
        }
        let endpoints = 2 + random.below(5) as usize;
        let load = Load {
            messages_per_pair: 50 + random.below(400),
            len_max: 1 << (6 + random.below(13)),
        };
        let skew_ppm = if random.chance(0.5) { random.below(50_000) as u32 } else { 0 };
        let mut mishaps: Vec<_> =
            (0..random.below(5)).map(|_| Mishap::any(&mut random, endpoints)).collect();
        // Last, so that the rest of a seed's run is what it was before there were these.
        let encrypt = random.chance(0.25);
        let bits = [0, 32, NUMBER_BITS][random.below(3) as usize];
        let numbers_from = (1_u64 << bits).saturating_sub(1 + random.below(200));
        let short_buffers = random.chance(0.3);
        if random.chance(0.2) {
            mishaps.push(Mishap::long(&mut random, endpoints));
        }
        let overruns = random.chance(0.3);
        if random.chance(0.3) {
            mishaps.push(Mishap::death(&mut random, endpoints));
        }
        if random.chance(0.25) {
            faults.carries = Some(700 + random.below(773) as usize);
            if random.chance(0.5) {
                let after = random.below(50_000_000);
                faults.carries_all_for = Duration::from_nanos(after);
            }
        }
        Self {
            seed,
            endpoints,
            faults,
            load,
            skew_ppm,
            encrypt,
            numbers_from,
            short_buffers,
            overruns,
            mishaps,
        }
    }

    /// This scenario without one of `drop`, `duplicate`, `corrupt`, `reorder`, `burst`, `skew`,
    /// `encryption`, `numbers` (they begin at 0), `short` (buffers), `overruns`, `narrow` (networks), or without
    /// the mishap of that number.
    ///
    /// # Errors
    /// When there is nothing of that name.
    pub fn without(mut self, part: &str) -> Result<Self, String> {
        match part {
            "drop" => self.faults.drop = 0.0,
            "duplicate" => self.faults.duplicate = 0.0,
            "corrupt" => self.faults.corrupt = 0.0,
            "reorder" => self.faults.reorder = 0.0,
            "burst" => self.faults.burst = 0.0,
            "skew" => self.skew_ppm = 0,
            "encryption" => self.encrypt = false,
            "numbers" => self.numbers_from = 0,
            "short" => self.short_buffers = false,
            "overruns" => self.overruns = false,
            "narrow" => self.faults.carries = None,
            number => match number.parse::<usize>() {
                // Made to last no time and to touch nobody: the others keep their numbers.
                Ok(number) if number < self.mishaps.len() => {
                    self.mishaps[number].what = What::Partition { set: 0, one_way: false };
                }
                _ => return Err(format!("there is no `{part}` to leave out")),
            },
        }
        Ok(self)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// What was wrong, with the seed: a message lost, doubled, out of order or altered, a wrong
    /// match, too much memory, an error that comes too late, no progress, or a panic.
    pub fn run(&self) -> Result<Report, String> {
        let run = AssertUnwindSafe(|| World::of(self).run(self.load, LIMIT));
        catch_unwind(run).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("seed {}: panicked: {}", self.seed, text.unwrap_or("without a word")))
        })
    }

    /// Smaller scenarios that fail as well: `self` is one that does. Each step is tried as long
    /// as `may_go_on` says so. Answers the options by which `cargo xtask sim` replays the
    /// smallest, and how that one fails.
    pub fn shrink(mut self, mut why: String, may_go_on: impl Fn() -> bool) -> (String, String) {
        let (mut left_out, whole) = (Vec::new(), self.clone());
        let parts: Vec<String> = (0..self.mishaps.len())
            .map(|number| number.to_string())
            .chain(PARTS.map(str::to_owned))
            .collect();
        for part in parts {
            let Ok(smaller) = self.clone().without(&part) else { continue };
            if may_go_on() && smaller != self && smaller.fails(&mut why) {
                self = smaller;
                left_out.push(part);
            }
        }
        let mut halve = |change: fn(&mut Self) -> bool| {
            let mut smaller = self.clone();
            while may_go_on() && change(&mut smaller) && smaller.fails(&mut why) {
                self = smaller.clone();
            }
        };
        halve(|s| {
            s.endpoints -= 1;
            s.endpoints >= 2
        });
        halve(|s| {
            s.load.messages_per_pair /= 2;
            s.load.messages_per_pair > 0
        });
        halve(|s| {
            s.load.len_max /= 2;
            s.load.len_max > 0
        });
        (self.options(&whole, &left_out), why)
    }

    fn fails(&self, why: &mut String) -> bool {
        match self.run() {
            Ok(_) => false,
            Err(error) => {
                *why = error;
                true
            }
        }
    }

    fn options(&self, whole: &Self, left_out: &[String]) -> String {
        let mut options = self.seed.to_string();
        let mut add = |name: &str, is: u64, was: u64| {
            if is != was {
                options.push_str(&format!(" --{name} {is}"));
            }
        };
        add("endpoints", self.endpoints as u64, whole.endpoints as u64);
        add("messages", self.load.messages_per_pair, whole.load.messages_per_pair);
        add("len-max", self.load.len_max, whole.load.len_max);
        if !left_out.is_empty() {
            options.push_str(" --without ");
            options.push_str(&left_out.join(","));
        }
        options
    }
}

impl Mishap {
    /// A partition that outlasts the patience of those it separates.
    fn long(random: &mut Random, endpoints: usize) -> Self {
        let after = Duration::from_micros(random.below(100_000));
        let set = 1 << random.below(endpoints as u64);
        let what = What::Partition { set, one_way: random.chance(0.3) };
        Self { after, lasts: Duration::from_secs(25), what }
    }

    /// A port that is closed for up to two seconds.
    fn death(random: &mut Random, endpoints: usize) -> Self {
        let after = Duration::from_micros(random.below(400_000));
        let lasts = Duration::from_micros(1 + random.below(2_000_000));
        let what = What::Death { node: random.below(endpoints as u64) as usize };
        Self { after, lasts, what }
    }

    fn any(random: &mut Random, endpoints: usize) -> Self {
        let after = Duration::from_micros(random.below(400_000));
        let lasts = Duration::from_micros(1 + random.below(1_000_000));
        let node = random.below(endpoints as u64) as usize;
        let what = match random.below(4) {
            0 => What::Partition { set: random.bits(), one_way: false },
            1 => What::Partition { set: 1 << node, one_way: true },
            2 => What::Pause { node },
            _ => What::Restart { node },
        };
        Self { after, lasts, what }
    }
}
