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
