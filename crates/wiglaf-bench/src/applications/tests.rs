use super::*;

fn application(energies: &[(Transport, f64)], expected_energy: Option<f64>) -> Application {
    let runs = energies.iter().map(|&(transport, energy)| Run {
        transport,
        label: transport.label().to_owned(),
        ranks: 2,
        settings: Settings::new(),
        energies: vec![energy],
        wall_s: 1.0,
        cpu_s: 1.0,
        round_wall_s: vec![1.0],
        round_cpu_s: vec![1.0],
    });
    Application {
        id: ApplicationId::Espresso,
        title: "pw.x".to_owned(),
        energy_unit: "Ry".to_owned(),
        expected_energy,
        runs: runs.collect(),
    }
}

#[test]
fn equal_energies_pass() {
    let near = -63.314_443_45 + 0.9e-6;
    let all = [(Transport::Serial, -63.314_443_45), (Transport::Wiglaf, near)];
    application(&all, None).check().unwrap();
}

#[test]
fn a_wrong_energy_names_who_found_it() {
    let all = [(Transport::Serial, -63.314_443_45), (Transport::Wiglaf, -63.314_446)];
    let error = application(&all, None).check().unwrap_err().to_string();
    assert!(error.contains("Wiglaf found -63.31444600 Ry"), "{error}");
    assert!(application(&all, None).verdict().starts_with("WRONG"));
}

#[test]
fn all_runs_may_agree_and_still_be_wrong() {
    let all = [(Transport::Serial, -167.6), (Transport::Wiglaf, -167.6)];
    let error = application(&all, Some(-167.597_717_8)).check().unwrap_err().to_string();
    assert!(error.contains("expected is -167.59771780"), "{error}");
}

#[test]
fn not_a_number_is_not_equal() {
    let all = [(Transport::Serial, -63.3), (Transport::Wiglaf, f64::NAN)];
    assert!(application(&all, None).check().is_err());
    assert!(application(&[], None).check().is_err());
}

#[test]
fn the_fastest_rival_is_the_one_to_beat() {
    let energy = -63.3;
    let all = [Transport::Serial, Transport::Tcp, Transport::Ucx, Transport::Wiglaf];
    let mut found = application(&all.map(|transport| (transport, energy)), None);
    for (run, wall_s) in found.runs.iter_mut().zip([0.1, 2.0, 1.5, 1.2]) {
        run.wall_s = wall_s;
    }
    let expected = "Wiglaf needed 1.20 s where UCX TCP needed 1.50 s: 20 % less";
    assert_eq!(found.in_words(), [expected]);
    found.runs.retain(|run| !run.transport.is_tcp_rival());
    assert!(found.in_words().is_empty());
}
