//! `xtask sim SEED` replays a run, `xtask sim --for 10m` hunts for a bad seed.

use std::time::{Duration, Instant};

use wiglaf_sim::{Faults, Load, Report, Scenario, Star, Stats};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The seed; network, load and mishaps follow from it.
    #[arg(default_value_t = 0)]
    seed: u64,
    /// Go on with the next seeds for so long, such as 30s or 10m.
    #[arg(long = "for", value_parser = duration)]
    time: Option<Duration>,
    /// With so many endpoints in place of what follows from the seed; these options are what a
    /// failure is shrunk to.
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=64))]
    endpoints: Option<u64>,
    /// With so many messages from each endpoint to each.
    #[arg(long)]
    messages: Option<u64>,
    /// With messages of at most so many bytes.
    #[arg(long)]
    len_max: Option<u64>,
    /// Without these: drop, duplicate, corrupt, reorder, burst, skew, encryption, numbers (of
    /// packets that begin elsewhere than at 0), short (buffers), overruns, narrow (network), or numbers of mishaps.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Instead: so many messages at 30 % loss, 5 % duplication, 10 % reordering and 1 % corruption.
    #[arg(long, conflicts_with_all = ["time", "endpoints", "messages", "without"], value_name = "N")]
    trial: Option<u64>,
    /// One run of such a trial in place of what follows from the seed.
    #[arg(long, conflicts_with = "trial")]
    trial_run: bool,
    /// Instead: what a message costs an endpoint with so many peers, and with 2.
    #[arg(long, conflicts_with_all = ["seed", "time", "trial"], value_name = "N")]
    peers: Option<usize>,
}

/// Reads a time such as 30s, 10m or 1h.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || "give a time such as 30s, 10m or 1h".to_owned();
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let number: u64 = number.parse().map_err(|_| bad())?;
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        _ => return Err(bad()),
    };
    Ok(Duration::from_secs(unit_s * number))
}

/// Runs the seeds; the first failure ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(peers) = arguments.peers {
        return scale(peers);
    }
    if let Some(messages) = arguments.trial {
        return trial(arguments, messages);
    }
    let began = Instant::now();
    let mut seed = arguments.seed;
    let mut messages = 0;
    loop {
        let scenario = arguments.scenario(seed)?;
        messages += arguments.ran(scenario)?.messages;
        seed += 1;
        if arguments.time.is_none_or(|limit| began.elapsed() >= limit) {
            break;
        }
    }
    println!(
        "seeds {}..{seed}: {messages} messages, none lost, doubled, reordered or altered",
        arguments.seed
    );
    Ok(())
}

impl Arguments {
    fn scenario(&self, seed: u64) -> Result<Scenario, String> {
        let mut scenario = match self.is_of_trial() {
            true => of_trial(seed),
            false => Scenario::from_seed(seed),
        };
        for part in &self.without {
            scenario = scenario.without(part)?;
        }
        scenario.endpoints = self.endpoints.map_or(scenario.endpoints, |n| n as usize);
        let load = &mut scenario.load;
        load.messages_per_pair = self.messages.unwrap_or(load.messages_per_pair);
        load.len_max = self.len_max.unwrap_or(load.len_max);
        Ok(scenario)
    }

    fn is_of_trial(&self) -> bool {
        self.trial_run || self.trial.is_some()
    }

    /// Runs it; a failure is shrunk, and says how to replay it.
    fn ran(&self, scenario: Scenario) -> Result<Report, String> {
        let kind = if self.is_of_trial() { " --trial-run" } else { "" };
        scenario.run().map_err(|why| shrunk(scenario, why, kind))
    }
}

/// How long a failure is made smaller.
const SHRINK_FOR: Duration = Duration::from_secs(60);

fn shrunk(scenario: Scenario, why: String, kind: &str) -> String {
    let began = Instant::now();
    eprintln!("{why}\nreplay with: cargo xtask sim {}{kind}\nnow shrinking it", scenario.seed);
    let (options, why) = scenario.shrink(why, || began.elapsed() < SHRINK_FOR);
    format!("{why}; replay the smallest with: cargo xtask sim {options}{kind}")
}

/// 16 endpoints under heavy faults.
fn of_trial(seed: u64) -> Scenario {
    let faults = Faults {
        drop: 0.3,
        duplicate: 0.05,
        reorder: 0.1,
        corrupt: 0.01,
        jitter: Duration::from_millis(1),
        ..Faults::NONE
    };
    Scenario::plain(seed, 16, faults, Load { messages_per_pair: 1000, len_max: 8192 })
}

/// Runs until so many messages have arrived.
fn trial(arguments: &Arguments, messages: u64) -> Result<(), String> {
    let (mut seed, mut arrived, mut stats) = (arguments.seed, 0, Stats::default());
    while arrived < messages {
        let report = arguments.ran(arguments.scenario(seed)?)?;
        arrived += report.messages;
        stats = stats.plus(&report.stats);
        seed += 1;
    }
    println!(
        "{arrived} messages arrived, none lost, doubled, reordered or altered, of all endpoints:"
    );
    for (name, value) in stats.iter().filter(|(_, value)| *value > 0) {
        println!("  {name}: {value}");
    }
    Ok(())
}

/// Host time of a message with many peers and with 2, in turns. Conversations of one message
/// meet each peer cold; longer ones are what programs have.
fn scale(peers: usize) -> Result<(), String> {
    const ROUNDS: usize = 9;
    const MESSAGES: u64 = 64_000;
    let began = Instant::now();
    let mut clock = || began.elapsed().as_nanos() as u64;
    println!("host time of a message and its answer, median of {ROUNDS} runs of {MESSAGES}:");
    for conversation in [1, 16, 64] {
        let mut stars = [Star::new(1, 2), Star::new(1, peers)];
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..=ROUNDS {
            for (star, costs) in stars.iter_mut().zip(&mut costs) {
                let cost = star.run(MESSAGES / conversation, conversation, &mut clock)?;
                // The first round only warms up.
                if round > 0 {
                    costs.push(cost.host_per_message);
                }
            }
        }
        let [few, many] = costs.map(|mut costs| {
            costs.sort_by(f64::total_cmp);
            costs[costs.len() / 2]
        });
        println!(
            "{conversation:>2} in a row with one peer: with 2 peers {few:.0} ns, with {peers} \
             peers {many:.0} ns, ratio {:.2}",
            many / few
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn line(text: &str) -> Arguments {
        Line::try_parse_from(text.split_whitespace()).unwrap().arguments
    }

    /// What is printed of a failed run of a trial names a run that fails as well.
    #[test]
    fn a_failed_trial_is_shrunk_to_a_run_that_can_be_had_again() {
        let mut scenario = line("sim --trial 1000").scenario(4).unwrap();
        assert_eq!((scenario.endpoints, scenario.faults.drop), (16, 0.3));
        // No network carries messages when it loses all: that fails with any load.
        (scenario.endpoints, scenario.load.messages_per_pair, scenario.faults.drop) = (3, 2, 1.0);
        let why = line("sim --trial 1000").ran(scenario).err().unwrap();
        let (_, options) = why.split_once("cargo xtask ").unwrap();
        assert!(options.starts_with("sim 4 --endpoints 2 --messages 1 "), "{why}");
        let again = line(options);
        assert!(again.trial_run, "{why}");
        let smaller = again.scenario(again.seed).unwrap();
        assert_eq!((smaller.endpoints, smaller.faults.corrupt, smaller.faults.drop), (2, 0.0, 0.3));
        let whole = line("sim 4 --trial-run").scenario(4).unwrap();
        assert_eq!(whole, line("sim --trial 1000").scenario(4).unwrap());
    }
}
