//! What sensors say that this machine's kernel shows.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel shows them.
pub const FOLDER: &str = "/sys/class/hwmon";
/// In degrees Celsius. A sensor without a cable says -128 and the like.
const PLAUSIBLE: std::ops::Range<f64> = -50.0..200.0;
/// Some drivers say 0 or nonsense for the limit.
const PLAUSIBLE_LIMIT: std::ops::Range<f64> = 50.0..200.0;

/// A sensor's reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The chip's name and the sensor's: `coretemp temp1`.
    pub sensor: String,
    /// Degrees Celsius.
    pub degrees: f64,
    /// At how many degrees its driver says that damage begins.
    pub limit: Option<f64>,
}

/// The readings of all sensors below a folder such as [`FOLDER`] that work, in no order.
#[must_use]
pub fn readings(folder: &Path) -> Vec<Reading> {
    let files = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    // Thousandths of a degree.
    let degrees = |path: PathBuf| Some(text(&path)?.parse::<f64>().ok()? / 1000.0);
    let mut readings = Vec::new();
    for chip in files(folder) {
        for input in files(&chip) {
            let name = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(name) = name.strip_suffix("_input").filter(|name| name.starts_with("temp"))
            else {
                continue;
            };
            let Some(reading) = degrees(input.clone()).filter(|d| PLAUSIBLE.contains(d)) else {
                continue;
            };
            let limit = degrees(chip.join(format!("{name}_crit")));
            let chip = text(&chip.join("name")).unwrap_or_else(|| "a sensor".to_owned());
            readings.push(Reading {
                sensor: format!("{chip} {name}"),
                degrees: reading,
                limit: limit.filter(|limit| PLAUSIBLE_LIMIT.contains(limit)),
            });
        }
    }
    readings
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_that_work_are_read_with_limits_that_may_be() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(readings(folder.path()), []);
        for (chip, values) in [("hwmon0", [41_000, -128_000]), ("hwmon1", [67_500, 66_000])] {
            let chip = folder.path().join(chip);
            fs::create_dir(&chip).unwrap();
            fs::write(chip.join("name"), "coretemp\n").unwrap();
            for (number, value) in values.iter().enumerate() {
                fs::write(chip.join(format!("temp{number}_input")), format!("{value}\n")).unwrap();
            }
            fs::write(chip.join("temp0_crit"), "100000\n").unwrap();
            fs::write(chip.join("temp1_crit"), "0\n").unwrap();
            fs::write(chip.join("fan1_input"), "900\n").unwrap();
        }
        let mut readings = readings(folder.path());
        readings.sort_by(|one, other| one.degrees.total_cmp(&other.degrees));
        let all: Vec<_> = readings.iter().map(|r| (r.degrees, r.limit)).collect();
        assert_eq!(all, [(41.0, Some(100.0)), (66.0, None), (67.5, Some(100.0))]);
        assert_eq!(readings[1].sensor, "coretemp temp1");
    }
}
