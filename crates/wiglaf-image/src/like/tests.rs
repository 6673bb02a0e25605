use wiglaf_join::model::Kind;

use super::*;

/// A host's file with that content, or link.
fn taken(path: &str, content: std::result::Result<&str, &str>, mode: u32, owner: &str) -> Taken {
    Taken {
        path: path.to_owned(),
        kind: Kind::Added,
        target: content.err().map(str::to_owned),
        mode,
        owner: owner.to_owned(),
        len: content.map_or(0, |text| text.len() as u64),
        digest: content.unwrap_or_default().to_owned(),
    }
}

/// A model of those files, and their contents, which stand for their digests.
fn model(files: Vec<Taken>) -> (Model, BTreeMap<String, Vec<u8>>) {
    let contents = files.iter().map(|file| (file.digest.clone(), file.digest.clone().into_bytes()));
    let contents = contents.collect();
    let mut model = Model::default();
    model.files.extend(files);
    (model, contents)
}

/// A tree that has what `apply` calls.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("etc/apt/sources.list.d")).unwrap();
    fs::write(
        root.path().join("etc/passwd"),
        "root:x:0:0::/root:/bin/sh\nann:x:2001:2001::/:/bin/sh\n",
    )
    .unwrap();
    fs::write(root.path().join("etc/group"), "root:x:0:\nann:x:2001:\n").unwrap();
    root
}

fn put(root: &Path, model: &Model, contents: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let mut tree = Tree::new(root);
    for file in &model.files {
        tree.put(model, file, contents.get(&file.digest).map_or(&[][..], |bytes| &bytes[..]))
            .unwrap();
    }
    tree.notes
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: giving files away takes root");
    }
    is_root
}

#[test]
fn files_links_modes_and_owners_are_as_on_the_host() {
    if !is_root() {
        return;
    }
    let root = tree();
    fs::write(root.path().join("etc/motd"), "old").unwrap();
    let (mut model, contents) = model(vec![
        taken("/etc/motd", Ok("welcome"), 0o640, "ann:ann"),
        taken("/etc/deep/er/x", Ok("deep"), 0o600, "root:root"),
        taken("/etc/link", Err("../motd"), 0o777, "root:root"),
        taken("/usr/local/bin/tool", Ok("#!"), 0o4755, "nobody-there:root"),
    ]);
    model.folders.insert("/etc/deep".to_owned(), (0o700, "root:root".to_owned()));
    let notes = put(root.path(), &model, &contents);
    let about = fs::metadata(root.path().join("etc/motd")).unwrap();
    assert_eq!((about.mode() & 0o7777, about.uid(), about.gid()), (0o640, 2001, 2001));
    assert_eq!(fs::read(root.path().join("etc/motd")).unwrap(), b"welcome");
    assert_eq!(fs::metadata(root.path().join("etc/deep")).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_link(root.path().join("etc/link")).unwrap(), Path::new("../motd"));
    // Whose it was is not there, so nobody runs it as that user, or as root.
    let tool = fs::metadata(root.path().join("usr/local/bin/tool")).unwrap();
    assert_eq!((tool.mode() & 0o7777, tool.uid()), (0o755, 0));
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn links_of_the_tree_lead_no_file_out_of_it() {
    if !is_root() {
        return;
    }
    let (root, outside) = (tree(), tempfile::tempdir().unwrap());
    symlink(outside.path(), root.path().join("etc/out")).unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    symlink(outside.path().join("kept"), root.path().join("etc/file")).unwrap();
    let (model, contents) = model(vec![
        taken("/etc/out/x", Ok("x"), 0o644, "root:root"),
        taken("/etc/../../x", Ok("x"), 0o644, "root:root"),
        taken("/etc/file", Ok("new"), 0o644, "root:root"),
        taken("/etc/apt", Ok("a folder"), 0o644, "root:root"),
    ]);
    let notes = put(root.path(), &model, &contents);
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(outside.path().join("kept")).unwrap(), b"kept");
    assert_eq!(fs::read(root.path().join("etc/file")).unwrap(), b"new");
}

#[test]
fn archives_of_the_host_come_with_their_keys_and_versions_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let source = "deb [signed-by=/usr/share/keyrings/x-keyring.gpg] http://x bookworm main\n";
    let (mut model, contents) = model(vec![
        taken("/etc/apt/sources.list.d/x.list", Ok(source), 0o644, "root:root"),
        taken(
            "/etc/apt/sources.list.d/own.list",
            Ok("deb [trusted=yes] file:/opt/a ./\n"),
            0o644,
            "root:root",
        ),
        taken("/etc/apt/sources.list.d/x.list.save", Ok("old"), 0o644, "root:root"),
        taken("/usr/share/keyrings/x-keyring.gpg", Ok("key"), 0o644, "root:root"),
    ]);
    model.versions.insert("nano".to_owned(), "7.2-1".to_owned());
    let made = archives(&model, &contents, Release::Bookworm, folder.path()).unwrap();
    assert_eq!(made.sources.len(), 2);
    assert!(made.has_folders && !made.lacks_debian && made.keys.is_none());
    let text = fs::read_to_string(folder.path().join("x.list")).unwrap();
    let key = text.split(['=', ']']).nth(1).unwrap();
    assert_eq!(fs::read(key).unwrap(), b"key");
    let pins = fs::read_to_string(made.preferences).unwrap();
    assert!(pins.contains("Package: nano\nPin: version 7.2-1\n"), "{pins}");
    let other = archives(&model, &contents, Release::Trixie, folder.path()).unwrap();
    assert!(other.lacks_debian);
}
