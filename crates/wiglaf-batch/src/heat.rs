//! A host that is too hot takes no further jobs: its look at itself says so.

use std::fs;
use std::path::Path;

use wiglaf_base::heat::{FOLDER, Reading, readings};

/// At how many degrees Celsius a sensor is too hot whose driver names no limit: Debian's drivers name 95 to 105 for
/// processors, and lower ones for disks. `heat = false` in the cluster file switches it off.
const LIMIT: f64 = 95.0;
/// That it was too hot at the look before: one spike is none. A start of the host forgets it.
const BEFORE: &str = "/run/wiglaf-batch/hot";

/// A sentence with what to do, where this host was too hot at the last look, too.
pub(crate) fn found(is_wanted: bool) -> Option<String> {
    let why = is_wanted.then(|| too_hot(&readings(Path::new(FOLDER)))).flatten();
    let was_before = Path::new(BEFORE).exists();
    match &why {
        Some(_) if !was_before => {
            let _ = fs::create_dir_all(Path::new(BEFORE).parent()?);
            let _ = fs::write(BEFORE, "");
        }
        None if was_before => drop(fs::remove_file(BEFORE)),
        _ => {}
    }
    why.filter(|_| was_before)
}

fn too_hot(readings: &[Reading]) -> Option<String> {
    let beyond = |reading: &Reading| reading.degrees - reading.limit.unwrap_or(LIMIT);
    let hot = readings.iter().filter(|reading| beyond(reading) >= 0.0);
    let hottest = hot.max_by(|one, other| beyond(one).total_cmp(&beyond(other)))?;
    Some(format!(
        "{} is at {:.0} degrees, and its limit is {:.0}; see to its fans and its room",
        hottest.sensor,
        hottest.degrees,
        hottest.limit.unwrap_or(LIMIT)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensor_at_its_limit_is_too_hot_and_below_it_none_is() {
        let reading =
            |sensor: &str, degrees, limit| Reading { sensor: sensor.to_owned(), degrees, limit };
        let well = [reading("nvme temp1", 84.0, Some(85.0)), reading("acpitz temp1", 94.9, None)];
        assert_eq!(too_hot(&well), None);
        let hot = [
            reading("coretemp temp2", 101.0, Some(100.0)),
            reading("nvme temp1", 90.0, Some(85.0)),
        ];
        let why = "nvme temp1 is at 90 degrees, and its limit is 85; see to its fans and its room";
        assert_eq!(too_hot(&hot).as_deref(), Some(why));
        assert!(too_hot(&[reading("acpitz temp1", 95.0, None)]).is_some());
    }
}
