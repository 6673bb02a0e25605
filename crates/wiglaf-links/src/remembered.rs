//! What has been measured of the links of an interface, and the order in which
//! `auto` tries them therefore.
//!
//! Which link is the fastest differs from driver to driver: on a veth pair it
//! is packet, on a card with zero-copy it should be xdp. So it is measured
//! once, by `wiglaf links measure`, and remembered in the cluster's state
//! folder, where endpoints look it up. It holds for the kernel, driver and MTU
//! that it was measured with.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wiglaf_endpoint::LinkKind;
use wiglaf_link_udp::{Interface, interface};

/// The file in the state folder.
pub const FILE: &str = "links.json";

/// Names the layout of the file.
const SCHEMA: &str = "wiglaf-links/1";

/// Where a measurement holds: name, driver and MTU of the interface, and the
/// kernel.
pub type Place = BTreeMap<String, String>;

/// What an interface is, as far as measurements depend on it.
#[must_use]
pub fn place(interface: &Interface) -> Place {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    [
        ("interface", interface.name.clone()),
        ("driver", interface::driver(&interface.name).unwrap_or_default()),
        ("mtu", interface.mtu.to_string()),
        ("kernel", kernel),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// One bare link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Which.
    pub link: String,
    /// Half round trips by length: bytes, and the median in microseconds.
    pub latency_us: Vec<(u64, f64)>,
    /// What arrives of a stream, in 10^6 bytes a second.
    pub stream_megabytes_per_s: f64,
    /// By how much it is behind the best link where it is worst, in percent.
    pub behind_percent: f64,
}

/// An interface and its links, in the order in which `auto` tries them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// Where this holds.
    pub place: Place,
    /// What was measured, the best first.
    pub links: Vec<Measured>,
    /// Links that could not be measured, and why.
    pub absent: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    schema: String,
    interfaces: Vec<Remembered>,
}

impl Remembered {
    /// Ranks links: the best is the one whose worst ratio to the best of each
    /// length, and of the stream, is the smallest. For an endpoint has one
    /// link for messages of all lengths.
    #[must_use]
    pub fn new(place: Place, mut links: Vec<Measured>, absent: BTreeMap<String, String>) -> Self {
        let mut fastest: BTreeMap<u64, f64> = BTreeMap::new();
        for (len, time) in links.iter().flat_map(|link| &link.latency_us) {
            let known = fastest.entry(*len).or_insert(*time);
            *known = known.min(*time);
        }
        let rate = links.iter().map(|link| link.stream_megabytes_per_s).fold(0.0, f64::max);
        for link in &mut links {
            let latency = link.latency_us.iter().map(|(len, time)| time / fastest[len]);
            let worst = latency.fold(rate / link.stream_megabytes_per_s, f64::max);
            link.behind_percent = (worst - 1.0) * 100.0;
        }
        links.sort_by(|a, b| a.behind_percent.total_cmp(&b.behind_percent));
        Self { place, links, absent }
    }

    /// The order in which `auto` tries links; a name that is not known here is
    /// left out.
    #[must_use]
    pub fn order(&self) -> Vec<LinkKind> {
        self.links.iter().filter_map(|link| LinkKind::named(&link.link)).collect()
    }
}

/// All that is remembered in a state folder; nothing where nothing was measured.
///
/// # Errors
/// When the file cannot be read or makes no sense.
pub fn read(folder: &Path) -> io::Result<Vec<Remembered>> {
    let text = match std::fs::read(folder.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    parse(&text)
}

/// What such a file says.
///
/// # Errors
/// When it makes no sense, or is of another version.
pub fn parse(text: &[u8]) -> io::Result<Vec<Remembered>> {
    let file: File = serde_json::from_slice(text)?;
    if file.schema != SCHEMA {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "another version has written it"));
    }
    Ok(file.interfaces)
}

/// Remembers a measurement in place of what is known of the same interface.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &Path, new: Remembered) -> io::Result<()> {
    let same = |old: &Remembered| old.place.get("interface") == new.place.get("interface");
    let mut interfaces = read(folder).unwrap_or_default();
    interfaces.retain(|old| !same(old));
    interfaces.push(new);
    let text = serde_json::to_vec_pretty(&File { schema: SCHEMA.to_owned(), interfaces })?;
    // Whoever reads meanwhile sees the old file or the new one, and no half.
    let draft = folder.join(format!("{FILE}.new"));
    std::fs::write(&draft, text)?;
    std::fs::rename(&draft, folder.join(FILE))
}

/// The order for an interface: nothing where nothing was measured as it is now.
#[must_use]
pub fn order(folder: &Path, interface: &Interface) -> Vec<LinkKind> {
    let all = read(folder).unwrap_or_default();
    if all.is_empty() {
        return Vec::new();
    }
    let place = place(interface);
    all.iter().find(|one| one.place == place).map(Remembered::order).unwrap_or_default()
}

/// The folder that endpoints of this process look into: nodes have it in their
/// environment.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os("WIGLAF_STATE").filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(link: &str, small: f64, large: f64, stream: f64) -> Measured {
        Measured {
            link: link.to_owned(),
            latency_us: vec![(8, small), (1400, large)],
            stream_megabytes_per_s: stream,
            behind_percent: 0.0,
        }
    }

    #[test]
    fn the_smallest_worst_case_wins() {
        let links = vec![
            measured("udp", 2.0, 2.2, 8000.0),
            // The fastest for small frames, and bad at streams.
            measured("xdp-native", 0.8, 1.0, 2000.0),
            measured("packet", 0.9, 1.1, 7900.0),
            measured("of-tomorrow", 1.5, 1.5, 8000.0),
        ];
        let remembered = Remembered::new(Place::new(), links, BTreeMap::new());
        let names: Vec<&str> = remembered.links.iter().map(|link| link.link.as_str()).collect();
        assert_eq!(names, ["packet", "of-tomorrow", "udp", "xdp-native"]);
        assert!((remembered.links[0].behind_percent - 12.5).abs() < 0.01);
        assert!((remembered.links[3].behind_percent - 300.0).abs() < 0.01);
        let order = [LinkKind::Packet, LinkKind::Udp, LinkKind::XdpNative];
        assert_eq!(remembered.order(), order);
    }

    #[test]
    fn it_holds_only_where_it_was_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = interface::list().expect("readable");
        let lo = all.into_iter().find(|i| i.is_loopback).expect("there is a loopback");
        assert_eq!(order(folder.path(), &lo), []);
        let links = vec![measured("udp", 2.0, 2.2, 8000.0)];
        let new = Remembered::new(place(&lo), links, BTreeMap::new());
        write(folder.path(), new.clone()).expect("written");
        assert_eq!(read(folder.path()).expect("readable"), std::slice::from_ref(&new));
        assert_eq!(order(folder.path(), &lo), [LinkKind::Udp]);
        let other_mtu = Interface { mtu: lo.mtu - 1, ..lo.clone() };
        assert_eq!(order(folder.path(), &other_mtu), []);
        // Measured again on another kernel: in place of the first.
        let mut elsewhere = new;
        elsewhere.place.insert("kernel".to_owned(), "1.0".to_owned());
        write(folder.path(), elsewhere.clone()).expect("written");
        assert_eq!(read(folder.path()).expect("readable"), [elsewhere]);
        assert_eq!(order(folder.path(), &lo), []);
        std::fs::write(folder.path().join(FILE), "{").expect("written");
        assert!(read(folder.path()).is_err());
        assert_eq!(order(folder.path(), &lo), []);
    }
}
