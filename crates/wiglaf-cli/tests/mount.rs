//! A node's folder, mounted: programs that know nothing of Wiglaf work on it.

#[path = "mount/calls.rs"]
mod calls;
mod common;
#[path = "mount/endings.rs"]
mod endings;
#[path = "mount/extremes.rs"]
mod extremes;
#[path = "mount/locks.rs"]
mod locks;
#[path = "mount/names.rs"]
mod names;
#[path = "mount/nodes.rs"]
mod nodes;
#[path = "mount/oracle.rs"]
mod oracle;
#[path = "mount/parallel.rs"]
mod parallel;
#[path = "mount/shared.rs"]
mod shared;

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::Site;

/// A mount on this machine, whose process is ours.
struct Mount<'a> {
    site: &'a Site,
    dir: PathBuf,
    process: Child,
}

impl<'a> Mount<'a> {
    fn new(site: &'a Site, what: &str, args: &[&str]) -> Self {
        Self::on(
            site,
            what,
            site.work().join(format!("mnt-{}", what.replace([':', '/'], "-"))),
            args,
        )
    }

    fn on(site: &'a Site, what: &str, dir: PathBuf, args: &[&str]) -> Self {
        // A dead mount may be there.
        let _ = fs::create_dir(&dir);
        let args = [&["mount", what, dir.to_str().unwrap()], args].concat();
        let mut process = site.interruptible(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert!(line.contains(&format!("{what} is mounted on ")), "it said `{line}`");
        Self { site, dir, process }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn umount(&mut self) {
        self.site.wiglaf(&["umount", self.dir.to_str().unwrap()]).expect_success();
        assert!(self.process.wait().unwrap().success());
        assert_eq!(fs::read_dir(&self.dir).unwrap().count(), 0);
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = self.site.wiglaf(&["umount", "--lazy", self.dir.to_str().unwrap()]);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A cluster, and this test's turn: `wiglaf down` takes away every dead mount of the machine, also
/// those that another test looks at.
struct Place {
    site: Site,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Place {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

/// A cluster, where mounts can be had.
fn site() -> Option<Place> {
    site_of(&[])
}

/// A cluster brought up with these arguments, where mounts can be had.
fn site_of(args: &[&str]) -> Option<Place> {
    static TURN: Mutex<()> = Mutex::new(());
    if let Err(why) = fs::File::options().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse: {why}");
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Place { site: Site::up(args)?, _turn: turn })
}

/// What a script says that must go well.
#[track_caller]
fn sh(dir: &Path, script: &str) -> String {
    let out = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{script}: {said}{complaint}");
    said.into_owned()
}

#[test]
fn unmodified_programs_work_on_it() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let dir = mount.dir.clone();

    // A tree goes there and comes back.
    let tree = site.work().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    sh(&tree, "head -c 3000000 /dev/urandom > a/big; echo needle > a/b/small; : > empty");
    sh(&tree, "ln -s b/small a/link; ln a/big a/b/other; chmod 640 a/big; chmod 500 a/b");
    sh(&tree, "touch -d '2001-02-03 04:05:06.789' a/b/small");
    sh(&dir, "tar --format=posix -cf - -C ../tree . | (mkdir t; tar -xpf - -C t)");
    let sums =
        "find . -type f | sort | xargs sha256sum; find . | sort | xargs stat -c '%n %f %h %s'";
    let times = "stat -c '%n %.9Y' a/b/small";
    for script in [sums, times] {
        // Folders count their space as each file system likes.
        let clean = |said: String| {
            let lines = said.lines().map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
                [name, mode @ "41ed", links, _] => format!("{name} {mode} {links}"),
                [name, mode @ "4140", links, _] => format!("{name} {mode} {links}"),
                _ => line.to_owned(),
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(clean(sh(&dir.join("t"), script)), clean(sh(&tree, script)));
    }
    let there = site.sh("node2", "cd /scratch/t && find . -type f | sort | xargs sha256sum");
    assert_eq!(there, sh(&tree, "find . -type f | sort | xargs sha256sum"));
    assert_eq!(sh(&dir, "grep -rl needle t | sort"), "t/a/b/small\n");
    sh(&dir, "cp -a t u; diff -r t u; test \"$(readlink u/a/link)\" = b/small; rm -r t u");
    assert_eq!(site.sh("node2", "ls /scratch"), "");

    if Command::new("git").arg("--version").output().is_ok() {
        let git = "git -c user.name=n -c user.email=e@x -c safe.directory='*'";
        sh(&dir, &format!("{git} init -q r; cd r; seq 1000 > f; {git} add f; {git} commit -qm 1"));
        sh(
            &dir,
            &format!("cd r; seq 900 > f; {git} commit -qam 2; {git} gc -q; {git} fsck --full"),
        );
        assert_eq!(
            sh(&dir, &format!("cd r; {git} status --short; {git} log --oneline | wc -l")),
            "2\n"
        );
    } else {
        println!("skipped: there is no git");
    }
    mount.umount();
}

#[test]
fn a_mapped_file_that_is_appended_to_keeps_its_bytes_in_their_places() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let script = "import fcntl,mmap,os,sys\n\
        p=sys.argv[1]; open(p,'wb').write(b'a'*4096); f=open(p,'a+b',0)\n\
        m=mmap.mmap(f.fileno(),0); m[0:1]=b'A'; m.flush()\n\
        assert os.path.getsize(p)==4096,os.path.getsize(p)\n\
        assert f.write(b'end')==3\n\
        assert os.pwrite(f.fileno(),b'too',0)==3\n\
        m[1:2]=b'B'; m.flush(); m.close()\n\
        fcntl.fcntl(f,fcntl.F_SETFL,0); assert os.pwrite(f.fileno(),b'C',2)==1\n\
        f.close(); f=open(p,'r+b',0); fcntl.fcntl(f,fcntl.F_SETFL,os.O_APPEND)\n\
        assert f.write(b'last')==4; f.close()\n\
        want=b'ABC'+b'a'*4093+b'endtoolast'; got=open(p,'rb').read()\n\
        assert got==want,(len(got),got[:4],got[4090:])";
    match Command::new("python3").args(["-c", script]).arg(mount.path("f")).output() {
        Ok(done) => assert!(done.status.success(), "{done:?}"),
        Err(why) => println!("skipped: there is no python3 ({why})"),
    }
    mount.umount();
}

#[test]
fn what_two_nodes_append_is_all_there() {
    use rustix::fs::{OFlags, fcntl_setfl};
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    fs::write(mount.path("f"), "0\n").unwrap();
    // Both are opened as other files are.
    let mut file = fs::File::options().read(true).write(true).open(mount.path("f")).unwrap();
    let mut wanted = String::from("0\n");
    for round in 1..4 {
        fcntl_setfl(&file, OFlags::APPEND).unwrap();
        file.write_all(format!("here {round}\n").as_bytes()).unwrap();
        site.sh("node2", &format!("echo there {round} >> /scratch/f"));
        file.write_all(b"more\n").unwrap();
        wanted += &format!("here {round}\nthere {round}\nmore\n");
        assert_eq!(site.sh("node2", "cat /scratch/f"), wanted);
        fcntl_setfl(&file, OFlags::empty()).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(round.to_string().as_bytes()).unwrap();
        wanted.replace_range(..1, &round.to_string());
    }
    drop(file);
    mount.umount();
}

#[test]
fn file_systems_below_a_mount_are_told_apart() {
    use std::os::unix::fs::{DirEntryExt, MetadataExt};
    let Some(site) = site() else { return };
    site.sh("node2", "cd /scratch; mkdir a; mount -t tmpfs none a; mkdir a/b; touch null");
    site.sh("node2", "cd /scratch; mount -t tmpfs none a/b; touch a/b/f; ln a/b/f a/b/g");
    site.sh("node2", "cd /scratch; mount --bind /dev/null null");
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    // Each of them numbers its files from 1 on; find(1) takes the same number further down for a loop.
    assert_eq!(sh(&mount.dir, "find a | sort"), "a\na/b\na/b/f\na/b/g\n");
    let ino = |name: &str| fs::metadata(mount.path(name)).unwrap().ino();
    let folders = [ino(""), ino("a"), ino("a/b")];
    assert!(folders[0] != folders[1] && folders[1] != folders[2], "{folders:?}");
    assert_eq!(ino("a/b/f"), ino("a/b/g"));
    assert_eq!(ino("null").to_string(), sh(&mount.dir, "stat -c %i null").trim());
    let there = site.sh("node2", "stat -c %i /scratch");
    assert_eq!(ino("").to_string(), there.trim());
    for entry in fs::read_dir(mount.path("a/b")).unwrap().map(Result::unwrap) {
        assert_eq!(entry.ino(), entry.metadata().unwrap().ino(), "{entry:?}");
    }
    assert_eq!(sh(&mount.dir, "stat -c '%F %t:%T' null"), "character special file 1:3\n");
    mount.umount();
}

#[test]
fn two_nodes_see_each_others_writes() {
    let Some(site) = site() else { return };
    let mount = Mount::new(&site, "node2:/scratch", &[]);
    let name = mount.path("f");
    fs::write(&name, "one").unwrap();
    let mut open = fs::File::open(&name).unwrap();
    for round in 0..20 {
        // Each write is as long as the one before, and there is no time between.
        let said =
            site.sh("node2", &format!("cat /scratch/f; printf 'r%02d' {round} > /scratch/f"));
        assert_eq!(said, if round == 0 { "one".into() } else { format!("w{:02}", round - 1) });
        let mut text = String::new();
        open.seek(SeekFrom::Start(0)).unwrap();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("r{round:02}"));
        fs::write(&name, format!("w{round:02}")).unwrap();
    }
    site.sh("node2", "mv /scratch/f /scratch/g; mkdir /scratch/f; echo x > /scratch/f/x");
    assert_eq!(fs::read_to_string(mount.path("f/x")).unwrap(), "x\n");
    // A file that is open here and replaced there: each is found where it is.
    let open = fs::File::open(mount.path("g")).unwrap();
    site.sh("node2", "echo new > /scratch/n; mv /scratch/n /scratch/g");
    assert_eq!(fs::metadata(mount.path("g")).unwrap().len(), 4);
    assert_eq!(open.metadata().unwrap().len(), 3);
    fs::write(mount.path("g"), "w19").unwrap();
    assert_eq!(fs::read_to_string(mount.path("g")).unwrap(), "w19");

    // A mount on a node, of another node's folder.
    site.sh("node1", "mkdir -p /tmp/m");
    let args = ["exec", "-w", "node1", "--", "wiglaf", "mount", "node2:/scratch", "/tmp/m"];
    let mut inside = site.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(inside.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "node2:/scratch is mounted on /tmp/m\n");
    site.sh("node1", "echo from-node1 >> /tmp/m/g");
    assert_eq!(fs::read_to_string(mount.path("g")).unwrap(), "w19from-node1\n");
    site.sh("node1", "wiglaf umount /tmp/m");
    assert!(inside.wait().unwrap().success());
}

#[test]
fn a_database_on_a_mount_is_right_whoever_keeps_its_locks() {
    let Some(site) = site() else { return };
    if Command::new("sqlite3").arg("--version").output().is_err() {
        println!("skipped: there is no sqlite3");
        return;
    }
    let sql = |path: &Path, text: &str| {
        let out = Command::new("sqlite3").arg(path).arg(text).output().unwrap();
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let make = "create table t(n); insert into t values(1),(2); select sum(n) from t;";
    for (name, args) in [("db", &[][..]), ("db2", &["--local-locks"][..])] {
        let mut mount = Mount::new(&site, "node2:/scratch", args);
        assert_eq!(sql(&mount.path(name), make), (true, "3\n".to_owned()));
        let check = sql(&mount.path(name), "pragma integrity_check; select count(*) from t;");
        assert_eq!(check, (true, "ok\n2\n".to_owned()));
        mount.umount();
    }
}

#[test]
fn editors_and_a_fortran_programs_scratch_files_work() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    // One of these.
    let found = |tools: &[&'static str]| {
        let is_there = |tool: &&&str| Command::new(tool).arg("--version").output().is_ok();
        let found = tools.iter().find(is_there).copied();
        if found.is_none() {
            println!("skipped: there is no {}", tools[0]);
        }
        found
    };
    fs::write(mount.path("text"), "one\ntwo\n").unwrap();
    // Debian's vim-tiny has but the second name.
    if let Some(vim) = found(&["vim", "vim.tiny"]) {
        let edit = "-u NONE -N -es -c 'set backup' -c '%s/two/deux/' -c wq text";
        sh(&mount.dir, &format!("{vim} {edit}"));
        assert_eq!(site.sh("node2", "cat /scratch/text"), "one\ndeux\n");
    }
    sh(&mount.dir, "sed -i s/one/un/ text");
    assert!(site.sh("node2", "cat /scratch/text").starts_with("un\n"));
    if found(&["gfortran"]).is_some() {
        let source = "program p\n\
            integer :: i, n\n\
            real(8) :: x(100), y(100)\n\
            open(10, status='scratch', form='unformatted', access='direct', recl=800)\n\
            open(11, file='keep.dat', form='unformatted')\n\
            do i = 1, 200\n x = i\n write(10, rec=i) x\n write(11) x\n end do\n\
            rewind(11)\n n = 0\n\
            do i = 200, 1, -1\n read(10, rec=i) x\n read(11) y\n\
            if (any(x /= i) .or. any(y /= 201 - i)) n = n + 1\n end do\n\
            print '(i0)', n\n end program\n";
        fs::write(site.work().join("p.f90"), source).unwrap();
        sh(&site.work(), "gfortran -o p p.f90");
        let run = format!("TMPDIR={} ../p", mount.dir.display());
        assert_eq!(sh(&mount.dir, &run).trim(), "0");
        // The scratch file has no name any more.
        assert_eq!(
            site.sh("node2", "cd /scratch; ls | grep -v text; stat -c %s keep.dat"),
            "keep.dat\n161600\n"
        );
    }
    mount.umount();
}

#[test]
fn what_is_refused_has_its_errno() {
    let Some(site) = site() else { return };
    let script = "cd /scratch; mkdir d full; echo s > d/f; mknod null c 1 3; mkfifo pipe; \
                  ln -s ../etc/hostname out; mount -t tmpfs -o size=256k none full";
    site.sh("node2", script);
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let errno = |outcome: std::io::Result<()>| outcome.unwrap_err().raw_os_error().unwrap();

    // A full disk: what was said to be written is there, and no more is said.
    let mut file = fs::File::create(mount.path("full/f")).unwrap();
    let mut said = 0;
    let why = loop {
        match file.write(&[b'x'; 40_000]) {
            Ok(count) => said += count,
            Err(why) => break why.raw_os_error(),
        }
    };
    assert_eq!(why, Some(28));
    let there = site.sh("node2", "tr -d x < /scratch/full/f | wc -c; stat -c %s /scratch/full/f");
    assert_eq!(there, format!("0\n{said}\n"));
    drop(file);

    // Devices and pipes do nothing here, and cannot be made.
    for name in ["null", "pipe"] {
        let open = fs::File::options().write(true).custom_flags(0o4000).open(mount.path(name));
        assert!([6, 13].contains(&errno(open.map(drop))), "{name}");
    }
    let made = Command::new("mknod").arg(mount.path("zero")).args(["c", "1", "5"]).output();
    assert!(!made.unwrap().status.success());
    assert_eq!(errno(std::os::unix::fs::chown(mount.path("d/f"), Some(7), None)), 1);

    // A folder that one is in becomes a link that leads out of what is exported.
    let mut inside = Command::new("sh")
        .args(["-c", "read go; cat hostname; echo x > wiglaf-escape"])
        .current_dir(mount.path("d"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    site.sh("node2", "cd /scratch; mv d e; ln -s /etc d");
    inside.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let out = inside.wait_with_output().unwrap();
    assert!(out.stdout.is_empty() && !out.status.success(), "{out:?}");
    assert_eq!(site.sh("node2", "ls /etc | grep -c wiglaf-escape || true"), "0\n");
    // A link is followed by who reads it, and on its own machine, as everywhere.
    assert_eq!(fs::read_link(mount.path("out")).unwrap(), Path::new("../etc/hostname"));

    // Another user's job.
    let program = format!("cat {0}/e/f; ls {0}", mount.dir.display());
    let other = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", &program])
        .output()
        .unwrap();
    assert!(!other.status.success() && other.stdout.is_empty(), "{other:?}");
    assert!(String::from_utf8_lossy(&other.stderr).contains("Permission denied"), "{other:?}");
    mount.umount();
    site.sh("node2", "umount /scratch/full");
}
