use super::*;

use std::collections::BTreeMap;

/// A folder in which a host's changes are made.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ask(&self, action: Action, contents: &str) -> Answer {
        let request = Request { manifest: self.path("state/wiglaf/manifest.json"), action };
        let mut bytes = Vec::new();
        write_request(&request, &mut bytes).unwrap();
        bytes.extend(contents.as_bytes());
        serve(&mut &bytes[..])
            .unwrap_or_else(|error| Answer { error: Some(error.to_string()), kept: Vec::new() })
    }

    /// All paths with what is there.
    fn listing(&self) -> BTreeMap<PathBuf, Seen> {
        let mut found = BTreeMap::new();
        let mut ahead = vec![self.dir.path().to_owned()];
        while let Some(folder) = ahead.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let seen = Seen::at(&path).unwrap();
                if seen == Seen::Other {
                    ahead.push(path.clone());
                }
                found.insert(path, seen);
            }
        }
        found
    }

    fn file(&self, name: &str, len: u64) -> Step {
        Step::File { path: self.path(name), mode: 0o644, content: Content::Sent(len), owner: None }
    }

    fn block(&self, name: &str, text: &str, is_at_end: bool) -> Step {
        Step::Block { path: self.path(name), text: text.to_owned(), is_at_end, mode: 0o600 }
    }
}

fn apply(cluster: &str, steps: Vec<Step>) -> Action {
    Action::Apply(Box::new(Apply {
        late_packages: Vec::new(),
        systemd: Vec::new(),
        cluster: cluster.to_owned(),
        name: "lab".to_owned(),
        by: "ann@pc1".to_owned(),
        steps,
        may_make: Vec::new(),
        caches: Vec::new(),
        units: false,
        ldconfig: false,
        packages: Vec::new(),
        deb_len: None,
        versions: Vec::new(),
        unwanted: Vec::new(),
        services: Vec::new(),
    }))
}

#[test]
fn what_was_started_ends_with_the_first_that_does_not_start_and_with_undo() {
    let disk = Disk::new();
    let log = disk.path("log");
    fs::write(&log, "").unwrap();
    let service = |name: &str, start: &str| Service {
        name: name.to_owned(),
        start: format!("{start} && echo start {name} >>{}", log.display()),
        stop: format!("echo stop {name} >>{}", log.display()),
    };
    let ask = |services: Vec<Service>| {
        let Action::Apply(mut changes) = apply("1", vec![disk.file("a", 1)]) else { panic!() };
        changes.services = services;
        disk.ask(Action::Apply(changes), "1")
    };
    let said = || fs::read_to_string(&log).unwrap().replace('\n', " ");
    let broken = service("broken", "{ echo 'no such card' >&2; false; }");
    let answer = ask(vec![service("one", "true"), broken]);
    assert_eq!(answer.error.as_deref(), Some("broken does not start: no such card"));
    assert_eq!(said(), "start one stop broken stop one ");
    assert!(!disk.path("a").exists() && !disk.path("state").exists());
    fs::write(&log, "").unwrap();
    assert_eq!(ask(vec![service("one", "true"), service("two", "true")]).error, None);
    assert_eq!(disk.ask(Action::Undo, "").kept, [""; 0]);
    assert_eq!(said(), "start one start two stop two stop one ");
}

#[test]
fn undo_brings_everything_back() {
    let disk = Disk::new();
    fs::write(disk.path("replaced"), "before").unwrap();
    fs::write(disk.path("known"), "no newline at the end").unwrap();
    symlink("nowhere", disk.path("link")).unwrap();
    let before = disk.listing();
    let steps = || {
        vec![
            disk.file("replaced", 5),
            disk.file("a/b/new", 3),
            Step::Link { path: disk.path("link"), target: "a/b/new".into() },
            disk.block("known", "ours\n", true),
            disk.block("c/made", "ours\n", false),
        ]
    };
    let answer = disk.ask(apply("1", steps()), "afternew");
    assert_eq!((answer.error, answer.kept), (None, Vec::new()));
    assert_eq!(fs::read_to_string(disk.path("a/b/new")).unwrap(), "new");
    assert_eq!(fs::read_to_string(disk.path("known")).unwrap(), "no newline at the end\nours\n");
    assert_eq!(fs::read_to_string(disk.path("c/made")).unwrap(), "ours\n");
    // An upgrade keeps what was there in the beginning.
    let answer = disk.ask(apply("1", steps()), "AFTERNEW");
    assert_eq!(answer.error, None);
    assert_eq!(fs::read_to_string(disk.path("replaced")).unwrap(), "AFTER");
    let answer = disk.ask(Action::Undo, "");
    assert_eq!((answer.error, answer.kept), (None, Vec::new()));
    assert_eq!(disk.listing(), before);
}

#[test]
fn failure_leaves_nothing_behind() {
    let disk = Disk::new();
    fs::write(disk.path("replaced"), "before").unwrap();
    fs::write(disk.path("no-folder"), "").unwrap();
    let before = disk.listing();
    // The last one cannot be written.
    let steps = vec![disk.file("replaced", 1), disk.file("a/new", 1), disk.file("no-folder/x", 1)];
    let error = disk.ask(apply("1", steps), "123").error.unwrap();
    assert!(error.contains("no-folder"), "{error}");
    assert_eq!(disk.listing(), before);
    // The connection ends too early.
    let error = disk.ask(apply("1", vec![disk.file("a/new", 10)]), "12345").error.unwrap();
    assert!(error.contains("connection ended"), "{error}");
    assert_eq!(disk.listing(), before);
}

#[test]
fn failing_upgrade_leaves_the_earlier_version() {
    let disk = Disk::new();
    fs::write(disk.path("no-folder"), "").unwrap();
    assert_eq!(disk.ask(apply("1", vec![disk.file("a", 3)]), "one").error, None);
    let before = disk.listing();
    let steps = vec![disk.file("a", 3), disk.file("no-folder/x", 1)];
    assert!(disk.ask(apply("1", steps), "two4").error.is_some());
    assert_eq!(disk.listing(), before);
}

#[test]
fn what_somebody_has_changed_since_stays() {
    let disk = Disk::new();
    fs::write(disk.path("replaced"), "before").unwrap();
    let steps = || {
        vec![disk.file("replaced", 3), disk.file("new", 3), disk.block("known", "ours\n", false)]
    };
    assert_eq!(disk.ask(apply("1", steps()), "onetwo").error, None);
    fs::write(disk.path("replaced"), "theirs").unwrap();
    fs::write(disk.path("known"), "theirs\nours\n").unwrap();
    let error = disk.ask(apply("1", steps()), "sixten").error.unwrap();
    assert!(error.contains("somebody has changed") && error.contains("replaced"), "{error}");
    let answer = disk.ask(Action::Undo, "");
    let [kept] = &answer.kept[..] else { panic!("{answer:?}") };
    assert!(kept.contains("replaced stays") && kept.contains("/saved/"), "{kept}");
    assert_eq!(fs::read_to_string(disk.path("replaced")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(disk.path("known")).unwrap(), "theirs\n");
    assert!(!disk.path("new").exists());
}

#[test]
fn what_was_there_already_is_not_ours_to_remove() {
    let disk = Disk::new();
    fs::write(disk.path("same"), "one").unwrap();
    fs::set_permissions(disk.path("same"), fs::Permissions::from_mode(0o644)).unwrap();
    let before = disk.listing();
    assert_eq!(disk.ask(apply("1", vec![disk.file("same", 3)]), "one").error, None);
    assert_eq!(disk.ask(Action::Undo, "").error, None);
    assert_eq!(disk.listing(), before);
}

#[test]
fn another_clusters_host_is_refused() {
    let disk = Disk::new();
    assert_eq!(disk.ask(apply("1", vec![disk.file("a", 1)]), "1").error, None);
    let error = disk.ask(apply("2", vec![disk.file("a", 1)]), "2").error.unwrap();
    assert!(error.contains("another cluster (lab, joined by ann@pc1)"), "{error}");
}

#[test]
fn what_is_no_request_is_a_sentence() {
    for bytes in [&b""[..], b"x\n", b"99999999999\n", b"2\n{}", b"5\n{}"] {
        let error = serve(&mut &bytes[..]).unwrap_err().to_string();
        assert!(error.contains("join-host"), "{error}");
    }
}

#[test]
fn files_that_an_update_removed_or_gave_away_come_back() {
    let disk = Disk::new();
    fs::write(disk.path("old"), "old").unwrap();
    fs::write(disk.path("again"), "again").unwrap();
    symlink("old", disk.path("link")).unwrap();
    let before = disk.listing();
    let who = fs::metadata(disk.path("old")).unwrap();
    let owner = Some(format!("{}:{}", who.uid(), who.gid()));
    let steps = vec![
        Step::Folder { path: disk.path("a"), mode: 0o700, owner: owner.clone() },
        Step::File { path: disk.path("a/b/new"), mode: 0o4750, content: Content::Sent(3), owner },
        Step::Gone { path: disk.path("old") },
        Step::Gone { path: disk.path("again") },
        Step::Gone { path: disk.path("link") },
        Step::Gone { path: disk.path("never-was") },
    ];
    assert_eq!(disk.ask(apply("1", steps.clone()), "new").error, None);
    assert_eq!(fs::metadata(disk.path("a")).unwrap().permissions().mode() & 0o7777, 0o700);
    let new = fs::metadata(disk.path("a/b/new")).unwrap();
    assert_eq!(new.permissions().mode() & 0o7777, 0o4750);
    for gone in ["old", "again", "link"] {
        assert_eq!(Seen::at(&disk.path(gone)).unwrap(), Seen::Nothing, "{gone}");
    }
    // One of them was made anew: it is somebody's now.
    fs::write(disk.path("again"), "mine").unwrap();
    let answer = disk.ask(Action::Undo, "");
    assert_eq!(answer.kept.len(), 1, "{:?}", answer.kept);
    assert!(answer.kept[0].contains("again stays"), "{:?}", answer.kept);
    fs::write(disk.path("again"), "again").unwrap();
    let mut after = disk.listing();
    // The copy of what stays is kept.
    after.retain(|path, _| !path.starts_with(disk.path("state")));
    assert_eq!(after, before);
    // A failure half-way brings all back, too.
    let mut steps = steps;
    steps.push(Step::File {
        path: disk.path("more"),
        mode: 0o644,
        content: Content::Sent(100),
        owner: None,
    });
    assert!(disk.ask(apply("1", steps), "new").error.is_some());
    let mut after = disk.listing();
    after.retain(|path, _| !path.starts_with(disk.path("state")));
    assert_eq!(after, before);
}
