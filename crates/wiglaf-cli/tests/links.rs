//! `wiglaf links`: what is measured is remembered, shown, and what `--link auto` goes by.

mod common;

use std::fs;
use std::process::Command;

use common::{Said, Site};
use serde_json::Value;

impl Site {
    /// The link that two ranks with `--link auto` get.
    fn auto(&self) -> String {
        let run = ["run", "--mpi", "none", "-n", "2", "--link", "auto", "--"];
        let floor = [env!("CARGO_BIN_EXE_wiglaf"), "floor"];
        let said = self.wiglaf(&[&run[..], &floor].concat()).expect_success();
        let line = said.stdout.lines().find(|line| line.starts_with('{')).expect("a result");
        let floor: Value = serde_json::from_str(line).unwrap();
        floor["link"].as_str().expect("a name").to_owned()
    }

    fn remembered(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.state().join("links.json")).unwrap()).unwrap()
    }

    fn remember(&self, all: &Value) {
        fs::write(self.state().join("links.json"), all.to_string()).unwrap();
    }
}

#[test]
fn auto_goes_by_what_was_measured_on_this_interface() {
    let nothing = Site::new();
    nothing
        .wiglaf(&["links", "measure"])
        .expect_sentence(1, "no cluster is up; start one with `wiglaf up`");
    let Some(site) = Site::up(&[]) else { return };
    // Told before the rounds, not after them.
    let exe = site.work().join("wiglaf");
    fs::copy(env!("CARGO_BIN_EXE_wiglaf"), &exe).unwrap();
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&exe);
    nobody.args(["links", "measure"]).env("WIGLAF_STATE", site.state()).current_dir("/tmp");
    let said: Said = nobody.output().unwrap().into();
    said.expect_sentence(1, "cannot write to");
    let said = site.wiglaf(&["links"]).expect_success();
    assert!(said.stdout.starts_with("Nothing has been measured"), "{said:?}");
    assert_eq!(site.auto(), "packet");

    let said = site.wiglaf(&["links", "measure", "--repeats", "1"]).expect_success();
    assert!(said.stdout.contains("driver veth") && said.stdout.contains("mtu 1500"), "{said:?}");
    let mut all = site.remembered();
    let links = all["interfaces"][0]["links"].as_array().unwrap().clone();
    let mut names: Vec<&str> = links.iter().map(|link| link["link"].as_str().unwrap()).collect();
    let best = names[0].to_owned();
    names.sort_unstable();
    assert_eq!(names, ["packet", "udp", "xdp-generic", "xdp-native"]);
    let absent = &all["interfaces"][0]["absent"]["xdp-zerocopy"];
    assert!(absent.as_str().unwrap().contains("zero-copy"), "{absent}");
    assert!(site.wiglaf(&["doctor"]).stdout.contains(&format!("MTU 1500): {best}, ")));
    assert_eq!(site.auto(), best);

    // Whichever was the best: auto takes the first of those that are remembered.
    for first in ["xdp-native", "udp", "xdp-generic"] {
        let mut order = links.clone();
        order.sort_by_key(|link| link["link"] != first);
        all["interfaces"][0]["links"] = order.into();
        site.remember(&all);
        assert_eq!(site.auto(), first);
    }
    // What was measured on another kernel does not count.
    all["interfaces"][0]["place"]["kernel"] = "1.0".into();
    site.remember(&all);
    assert_eq!(site.auto(), "packet");
    assert_eq!(site.strays(), 0);
    site.wiglaf(&["down"]).expect_success();
    assert!(!site.state().join("links.json").exists());
}
