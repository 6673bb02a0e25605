use std::collections::BTreeMap;

use super::*;

fn said(ranks: &[f64]) -> String {
    let rank = |wall: &f64| {
        let part = |name: &str| {
            format!(
                "{{\"name\": \"{name}\", \"wall_s\": {wall}, \"cpu_s\": 0.5, \"wait_s\": 0.25, \
                 \"machine_cpu_s\": 2.0, \"local_bytes\": 1, \"remote_bytes\": 10}}"
            )
        };
        let names = ["integrals", "scf"].into_iter().chain(PHASES);
        format!("{{\"phases\": [{}]}}", names.map(part).collect::<Vec<_>>().join(","))
    };
    format!(
        "{{\"basis\": \"b\", \"functions\": 3, \"mp2_correlation_hartree\": -0.5, \"ranks\": [{}]}}",
        ranks.iter().map(rank).collect::<Vec<_>>().join(",")
    )
}

fn entry(way: Way, nodes: usize, walls: &[f64]) -> Entry {
    let found = walls.iter().map(|wall| parse(&said(&vec![*wall; nodes])).unwrap()).collect();
    Entry { way, nodes, remote: String::new(), found }
}

/// One node takes 5 s, two nodes by Wiglaf 2.5 s and by NFS 10 s.
pub(crate) fn sample() -> Report {
    let plan = Plan {
        rounds: 1,
        input: Input::CcPvtz,
        ways: WAYS.to_vec(),
        nodes_max: 2,
        program: PathBuf::new(),
        cache: PathBuf::new(),
    };
    let entries = [(Way::Local, 1, 0.75), (Way::Wiglaf, 2, 0.25), (Way::Nfs, 2, 1.75)]
        .map(|(way, nodes, wall)| entry(way, nodes, &[wall]));
    let absent = vec![Absent { way: Way::Sshfs, reason: "sshfs is missing".to_owned() }];
    report(&plan, Facts::gather(BTreeMap::new()), &entries, absent).unwrap()
}

#[test]
fn a_phase_lasts_until_its_last_rank_is_done() {
    let said = parse(&said(&[1.0, 3.0])).unwrap();
    assert_eq!(said.phase_wall_s("half 1"), 3.25);
    assert_eq!(said.wall_s(), 5.0 * 3.25);
    assert_eq!(said.sum(|part| part.cpu_s), 5.0);
    assert_eq!(said.machine_cpu_s(), 10.0);
}

#[test]
fn speed_up_is_against_one_node() {
    let report = sample();
    let of = |way, nodes| report.at(way, nodes).map(|run| (run.speed_up, run.efficiency));
    assert_eq!(of(Way::Nfs, 1), Some((1.0, 1.0)));
    assert_eq!(of(Way::Wiglaf, 2), Some((2.0, 1.0)));
    assert_eq!(of(Way::Nfs, 2), Some((0.5, 0.25)));
    assert_eq!(of(Way::Nfs, 3), None);
    assert_eq!(report.ways(), [Way::Wiglaf, Way::Nfs]);
}

#[test]
fn a_report_without_a_phase_is_refused() {
    assert!(parse("nothing").is_err());
    assert!(parse(&said(&[1.0]).replace("sort 2", "sort 9")).is_err());
    assert!(parse(&said(&[])).is_err());
}
