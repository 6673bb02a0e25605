//! Launches the installed MPI over loopback and reads what really comes back.
//! Where a program is not installed, its test says so and passes.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use wiglaf_bench::local::LocalMpirun;
use wiglaf_bench::outcome::Outcome;
use wiglaf_bench::report::{self, Reported as _};
use wiglaf_bench::turns::Guard;
use wiglaf_bench::{
    BenchError, Launcher, Transport, bandwidth, idle, incast, loss, memory, pingpong, ring, shaped,
};

/// The value, or a line that says why the test is skipped.
fn or_skip<T>(result: Result<T, BenchError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error @ BenchError::ProgramMissing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn short(cache: &Path, contenders: &[Transport]) -> pingpong::Plan {
    pingpong::Plan {
        cores: Vec::new(),
        rounds: 2,
        lens: vec![0, 8, 5000, 1 << 20],
        budget: Duration::from_millis(5),
        contenders: contenders.to_vec(),
        cache: cache.to_owned(),
    }
}

#[test]
fn rivals_take_turns_and_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let rivals = [Transport::Tcp, Transport::Ucx, Transport::OfiTcp, Transport::Wiglaf];
    let mut turns = Vec::new();
    let mut note = |line: &str| turns.push(line.to_owned());
    let measured = pingpong::measure(&launcher, &short(dir.path(), &rivals), &mut note);
    let Some(found) = or_skip(measured) else { return };

    let tcp = found.contenders.iter().find(|c| c.transport == Transport::Tcp).unwrap();
    assert_eq!(tcp.points.iter().map(|p| p.len).collect::<Vec<_>>(), [0, 8, 5000, 1 << 20]);
    for contender in &found.contenders {
        assert!(contender.evidence.is_some(), "{contender:?}");
        for point in &contender.points {
            let trip = &point.half_round_trip;
            assert_eq!(point.round_p50_us.len(), 2);
            assert!(trip.samples >= 48 && 0.0 < trip.min_us);
            assert!(
                trip.min_us <= trip.p50_us
                    && trip.p99_us.is_none_or(|p99_us| trip.p50_us <= p99_us)
            );
        }
    }
    // A rival that runs here at all must be seen to run over what it should.
    let astray = found.absent.iter().find(|a| a.reason.contains("over something else"));
    assert_eq!(astray, None);
    // This launcher has no Wiglaf to offer, and the report has to say so.
    assert!(found.absent.iter().any(|a| a.transport == Transport::Wiglaf));
    let rounds: Vec<_> = turns.iter().filter(|l| l.starts_with("round")).collect();
    assert_eq!(rounds.len(), 2 * found.contenders.len());
    let json = dir.path().join("r.json");
    report::write(&found, &json).unwrap();
    assert_eq!(report::read::<pingpong::Report>(&json).unwrap(), found);
    assert!(found.table().contains("1 MiB"));
}

#[test]
fn streams_go_one_way_and_both() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let plan = bandwidth::Plan {
        rounds: 2,
        lens: vec![8, 1 << 18],
        window: 8,
        budget: Duration::from_millis(5),
        contenders: vec![Transport::Tcp],
        cache: dir.path().to_owned(),
    };
    let measured = bandwidth::measure(&launcher, &plan, &mut |_| ());
    let Some(found) = or_skip(measured) else { return };
    assert_eq!(found.contenders[0].points.len(), 4);
    for point in &found.contenders[0].points {
        assert!(point.window_time.samples >= 12 && point.messages_per_s > 0.0);
        assert_eq!(point.round_megabytes_per_s.len(), 2);
    }
    let written = found.write(dir.path()).unwrap();
    assert!(written.files.iter().all(|file| file.is_file()));
    assert_eq!(report::read::<bandwidth::Report>(&written.files[0]).unwrap(), found);
}

#[test]
fn shaped_ports_and_lossy_wires_are_cases() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let contestants = vec![Transport::Tcp.into(), Transport::Wiglaf.into()];
    let plan = shaped::Plan {
        rounds: 2,
        len: 4096,
        window: 4,
        contestants: contestants.clone(),
        ..shaped::Plan::new(dir.path().to_owned())
    };
    let measured = shaped::measure(&[(1500, &launcher)], &plan, &mut |_| ());
    let Some(found) = or_skip(measured) else { return };
    assert_eq!((found.cases.len(), found.figures.len()), (2, 2));
    for case in &found.cases {
        assert_eq!((case.entries.len(), case.entries[0].rounds.len()), (1, 2));
        assert!(case.entries[0].value > 0.0 && case.entries[0].evidence.is_some());
    }
    // This launcher has no Wiglaf, and nothing is claimed of it.
    assert!(found.figures.iter().all(|figure| figure.is_met().is_none()));
    assert_eq!(found.absent[0].who, "Wiglaf");

    // The circumstance lasts as long as its tasks, and comes back each round.
    let (begun, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let lose = || {
        begun.set(begun.get() + 1);
        Ok(Box::new(Ends(Rc::clone(&ended))) as Guard)
    };
    let plan = loss::Plan {
        rounds: 1,
        len: 4096,
        window: 4,
        round_trips: 300,
        contestants,
        ..loss::Plan::new(dir.path().to_owned())
    };
    let Some(found) = or_skip(loss::measure(&launcher, &lose, &plan, &mut |_| ())) else { return };
    assert_eq!((begun.get(), ended.get()), (2, 2));
    assert_eq!(found.cases.len(), 6);
    let recovery = found.case("recovery of a lost last packet").unwrap();
    assert_eq!(recovery.entries[0].who, "Open MPI TCP");
    let written = found.write(dir.path()).unwrap();
    assert!(written.files.iter().all(|file| file.is_file()));
    assert_eq!(report::read::<Outcome>(&written.files[0]).unwrap(), found);
}

#[test]
fn many_senders_and_many_messages_are_cases() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let plan = incast::Plan {
        rounds: 1,
        senders: 2,
        time: Duration::from_millis(50),
        contestants: vec![Transport::Tcp.into()],
        ..incast::Plan::new(dir.path().to_owned())
    };
    let measured = incast::measure(&launcher, &launcher, None, &plan, &mut |_| ());
    let Some(found) = or_skip(measured) else { return };
    let names: Vec<&str> = found.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["1 sender", "2 senders", "fairness among the senders"]);
    let both = &found.cases[1].entries[0];
    assert!(both.value > 0.0 && both.counters.contains_key("segments_sent_again"), "{both:?}");
    assert!((0.5..=1.0).contains(&found.cases[2].entries[0].value));

    let plan = memory::Plan {
        messages: 20_000,
        unexpected: 100,
        contestants: vec![Transport::Tcp.into()],
        ..memory::Plan::new(1 << 20, dir.path().to_owned())
    };
    let Some(found) = or_skip(memory::measure(&launcher, Some(9.0), &plan, &mut |_| ())) else {
        return;
    };
    assert!(found.cases[0].entries[0].counters["resident_KiB"] > 0.0);
    assert_eq!(found.figures[0].is_met(), Some(true));
}

/// Else sockets would have two wake-ups in a round trip, and an MPI that polls for its answer one.
#[test]
fn who_asks_over_sockets_does_not_sleep() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let plan = idle::Plan {
        rounds: 1,
        contestants: vec![Transport::Tcp.into()],
        ..idle::Plan::new(dir.path().to_owned())
    };
    let Some(found) = or_skip(idle::measure(&launcher, &plan, &mut |_| ())) else { return };
    let sockets = found.cases[1].who("blocking sockets").unwrap();
    assert!(sockets.times.is_some_and(|times| times.samples == 10), "{sockets:?}");
    assert_eq!(sockets.counters[idle::ASKER_SLEEPS], 0.0);
}

struct Ends(Rc<Cell<u32>>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn nobody_to_measure_is_an_error_that_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let plan = short(dir.path(), &[Transport::Wiglaf]);
    match pingpong::measure(&launcher, &plan, &mut |_| ()) {
        Err(BenchError::NoContender(why)) => assert!(why.contains("loopback"), "{why}"),
        Err(BenchError::ProgramMissing { .. }) => eprintln!("skipped: no mpicc"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_ranks_than_cores_go_round() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let plan = ring::Plan {
        rounds: 1,
        budget: Duration::from_millis(50),
        contenders: vec![Transport::Tcp],
        ..ring::Plan::new(4, dir.path().to_owned())
    };
    let Some(found) = or_skip(ring::measure(&launcher, &plan, &mut |_| ())) else { return };
    assert_eq!((found.ranks, found.nodes), (4, 1));
    assert!(found.contenders[0].step.samples >= 200);
    assert!(found.contenders[0].step_us() > 0.0);
}

#[test]
fn a_failing_program_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let Some(launcher) = or_skip(LocalMpirun::new()) else { return };
    let settings = launcher.settings(Transport::Tcp).unwrap();
    let job = wiglaf_bench::Job {
        transport: Transport::Tcp,
        settings: &settings,
        ranks: 1,
        nodes: 1,
        program: Path::new("/nonexistent/program"),
        args: &[],
        env: &[],
        dir: dir.path(),
    };
    let error = wiglaf_bench::launch::run(&launcher, &job, Duration::from_secs(60)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("program over Open MPI TCP failed"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
