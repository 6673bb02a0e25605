//! `xtask sim SEED` replays a run, `xtask sim --for 10m` hunts for a bad seed.

use std::time::{Duration, Instant};

use wiglaf_sim::{Faults, Load, Random, Star, World};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The seed; network and load follow from it.
    #[arg(default_value_t = 0)]
    seed: u64,
    /// Go on with the next seeds for so long, such as 30s or 10m.
    #[arg(long = "for", value_parser = duration)]
    time: Option<Duration>,
    /// Instead: what a message costs an endpoint with so many peers, and with 2.
    #[arg(long, conflicts_with_all = ["seed", "time"], value_name = "N")]
    peers: Option<usize>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let number: u64 = number.parse().map_err(|_| "give a time such as 30s or 10m".to_owned())?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(60 * number)),
        _ => Err("give a time such as 30s or 10m".to_owned()),
    }
}

/// Runs the seeds; the first failure ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(peers) = arguments.peers {
        return scale(peers);
    }
    let began = Instant::now();
    let mut seed = arguments.seed;
    let mut messages = 0;
    loop {
        messages +=
            one(seed).map_err(|why| format!("{why}; replay with: cargo xtask sim {seed}"))?;
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

/// Everything about the run follows from the seed.
fn one(seed: u64) -> Result<u64, String> {
    let mut random = Random::new(seed ^ 0x57);
    let mut up_to = |limit: f64| limit * random.below(1000) as f64 / 1000.0;
    let faults = Faults {
        drop: up_to(0.35),
        duplicate: up_to(0.2),
        corrupt: up_to(0.05),
        reorder: up_to(0.3),
        latency: Duration::from_nanos(1000 + up_to(50_000.0) as u64),
        jitter: Duration::from_nanos(1 + up_to(2_000_000.0) as u64),
    };
    let endpoints = 2 + random.below(5) as usize;
    let load =
        Load { messages_per_pair: 50 + random.below(400), len_max: 1 << (6 + random.below(13)) };
    let report = World::new(seed, endpoints, faults).run(load, Duration::from_secs(3600))?;
    Ok(report.messages)
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
