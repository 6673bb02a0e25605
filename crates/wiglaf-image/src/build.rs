//! `wiglaf image build`: what it is going to do, and doing it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::image::Image;
use wiglaf_join::laid::Build;
use wiglaf_join::model::{self, Model};

use crate::release::Release;
use crate::users::{self, Account};
use crate::{disk, like, netboot, outside, root};

/// What building takes, each with the package that has it.
const PROGRAMS: [(&str, &str); 9] = [
    ("mmdebstrap", "mmdebstrap"),
    ("mke2fs", "e2fsprogs"),
    ("sfdisk", "fdisk"),
    ("mkfs.fat", "dosfstools"),
    ("mcopy", "mtools"),
    ("mmd", "mtools"),
    ("strip", "binutils"),
    ("tar", "tar"),
    ("chroot", "coreutils"),
];
/// What a tree and its image need while both are there, in bytes.
const SPACE: u64 = 3 << 30;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// The release; this machine's unless given.
    pub release: Option<Release>,
    /// The configured host that the image is to be like, if one is named.
    pub from: Option<model::Options>,
    /// Packages besides those of each node and of the cluster file.
    pub packages: Vec<String>,
    /// The image; kernel and initrd for starting from the network lie beside it.
    pub output: PathBuf,
    /// A folder where the tree of packages is kept, and taken again where they are the same.
    pub cache: Option<PathBuf>,
    /// The user who gets an account where the cluster file names none.
    pub caller: String,
}

/// What is going to be made.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// Debian's release, such as 12.
    pub release: u32,
    /// All packages that are named; what these need comes along.
    pub packages: Vec<String>,
    /// The accounts.
    pub users: Vec<Account>,
    /// The cluster whose file is in the image.
    pub cluster: Option<String>,
    /// What it has of a configured host.
    pub like: Option<Model>,
    /// The image.
    pub image: PathBuf,
    /// The kernel for starting from the network.
    pub kernel: PathBuf,
    /// The initrd beside it.
    pub initrd: PathBuf,
    #[serde(skip)]
    suite: Release,
    #[serde(skip)]
    cache: Option<PathBuf>,
    #[serde(skip)]
    hosts: Option<Hosts>,
    #[serde(skip)]
    build: Build,
}

/// What has been made.
#[derive(Debug, Serialize)]
pub struct Built {
    /// The image.
    pub image: PathBuf,
    /// Its length in bytes.
    pub image_bytes: u64,
    /// How long it took, in seconds, and of these for the packages.
    pub seconds: f64,
    /// See above.
    pub packages_seconds: f64,
}

/// Says what would be made; nothing is.
///
/// # Errors
/// When something that it takes is missing here.
pub fn plan(options: &Options, cluster: Option<&Hosts>) -> Result<Plan> {
    let like = options.from.as_ref().map(|from| model::look(cluster, from)).transpose()?;
    let there = like.as_ref().map(release_of).transpose()?;
    let suite = there.or(options.release).or_else(Release::of_this_machine).ok_or_else(|| {
        Error::new(
            "this machine is no Debian 12 or 13; say which one the nodes get, with `--release 13`",
        )
    })?;
    let build = Build::find()?;
    if let Some((major, minor)) = build.glibc().filter(|needed| *needed > suite.glibc()) {
        let (has, number) = (suite.glibc(), suite.number());
        return Err(Error::new(format!(
            "this build of Wiglaf takes glibc {major}.{minor}, and Debian {number} has {}.{}; build Wiglaf on \
             Debian {number}, or say `--release 13`",
            has.0, has.1
        )));
    }
    let none = Image::default();
    let section = cluster.and_then(|hosts| hosts.image.as_deref()).unwrap_or(&none);
    let users = users::accounts(section, &options.caller)?;
    let own = root::PACKAGES.iter().map(|package| (*package).to_owned());
    let mut packages: Vec<String> =
        own.chain(section.packages.clone()).chain(options.packages.clone()).collect();
    packages.sort();
    packages.dedup();
    let image = std::path::absolute(&options.output).cannot(|| "find the output".to_owned())?;
    if image.is_dir() {
        return Err(Error::new(format!(
            "{} is a folder; name a file with --output",
            image.display()
        )));
    }
    Ok(Plan {
        like,
        release: suite.number(),
        packages,
        users,
        cluster: cluster.map(|hosts| hosts.name.clone()),
        kernel: image.with_extension("vmlinuz"),
        initrd: image.with_extension("initrd"),
        image,
        suite,
        cache: options.cache.clone(),
        hosts: cluster.cloned(),
        build,
    })
}

/// The release of a host that an image is to be like.
fn release_of(model: &Model) -> Result<Release> {
    let all = [Release::Bookworm, Release::Trixie];
    all.into_iter().find(|one| one.number().to_string() == model.release).ok_or_else(|| {
        Error::new(format!(
            "{} has Debian {}, and images are of Debian 12 or 13; choose another host",
            model.name, model.release
        ))
    })
}

impl Plan {
    /// A line for each thing that an image gets.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Debian {} with {}", self.release, self.packages.join(" "))];
        lines.push(format!(
            "Wiglaf {} below /usr/local, its helper enabled",
            env!("CARGO_PKG_VERSION")
        ));
        lines.extend(self.like.iter().flat_map(Model::lines));
        if let Some(cluster) = &self.cluster {
            lines.push(format!("the file of cluster {cluster} in /etc/wiglaf"));
        }
        for user in &self.users {
            let keys = user.keys.len();
            let sudo = if user.is_admin { ", sudo without a password" } else { "" };
            let plural = if keys == 1 { "" } else { "s" };
            lines.push(format!(
                "user {} ({}) with {keys} ssh key{plural}{sudo}",
                user.name, user.uid
            ));
        }
        lines.push(
            "no host name, ssh or munge key or machine-id: each node makes its own".to_owned(),
        );
        let files =
            [&self.image, &self.kernel, &self.initrd].map(|path| path.display().to_string());
        lines.push(format!("written to {}", files.join(", ")));
        lines
    }

    /// Makes it; tells `say` what is being done.
    ///
    /// # Errors
    /// What failed. Earlier files of those names are as they were.
    pub fn carry_out(&self, say: &dyn Fn(&str)) -> Result<Built> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new("making an image takes root; run it with sudo"));
        }
        outside::check(&PROGRAMS)?;
        let folder = self.image.parent().unwrap_or(Path::new("/"));
        let free =
            rustix::fs::statvfs(folder).cannot(|| format!("look at {}", folder.display()))?;
        let free = free.f_bavail * free.f_frsize;
        let installed = self.like.as_ref().map_or(0, |model| model.installed_bytes);
        let space = SPACE.max(installed.saturating_mul(5) / 2);
        if free < space {
            return Err(Error::new(format!(
                "{} has {} MB free, and building takes {}; name a file elsewhere with --output",
                folder.display(),
                free / 1_000_000,
                space / 1_000_000
            )));
        }
        let work = self.image.with_extension(format!("work-{}", std::process::id()));
        let done = self.make(&work, say);
        // Nothing is mounted below it.
        let gone = fs::remove_dir_all(&work);
        let built = done?;
        gone.cannot(|| format!("remove {}", work.display()))?;
        Ok(built)
    }

    fn make(&self, work: &Path, say: &dyn Fn(&str)) -> Result<Built> {
        let began = Instant::now();
        let cannot = |path: &Path| format!("write {}", path.display());
        let root = work.join("root");
        fs::create_dir(work).cannot(|| cannot(work))?;
        let mut packages = self.packages.clone();
        let contents = self.like.as_ref().map(Model::contents).transpose()?.unwrap_or_default();
        let archives = self.like.as_ref().map(|model| {
            packages.extend(model.packages.iter().map(|package| package.name.clone()));
            packages.sort();
            packages.dedup();
            like::archives(model, &contents, self.suite, &work.join("apt"))
        });
        let archives = archives.transpose()?;
        say(&format!("Debian {} is being unpacked by mmdebstrap", self.release));
        root::make(self.suite, &packages, archives.as_ref(), self.cache.as_deref(), &root)?;
        let packages_seconds = began.elapsed().as_secs_f64();
        if let Some(model) = &self.like {
            say(&format!("it is being made like {}", model.name));
            like::apply(&root, model, &contents)?.iter().for_each(|note| say(note));
        }
        say("Wiglaf and the users are being added");
        root::finish(&root, &self.build, &self.users, self.hosts.as_ref())?;
        say("the disk is being made");
        let image = work.join("node.img");
        disk::make(&root, &image)?;
        let initrd =
            root.join("initrd.img").canonicalize().cannot(|| "find the initrd".to_owned())?;
        netboot::append_installer(&root, &initrd)?;
        let [shim, grub] =
            ["shim", "grub"].map(|e| (image.with_extension(e), self.image.with_extension(e)));
        let made = [
            (root.join("vmlinuz"), self.kernel.clone()),
            (initrd, self.initrd.clone()),
            shim,
            grub,
            (image, self.image.clone()),
        ];
        for (from, to) in &made {
            // The links at the top lead into the tree.
            let from = from.canonicalize().cannot(|| format!("find {}", from.display()))?;
            fs::rename(&from, to).cannot(|| cannot(to))?;
        }
        let about =
            fs::metadata(&self.image).cannot(|| format!("look at {}", self.image.display()))?;
        Ok(Built {
            image: self.image.clone(),
            image_bytes: about.len(),
            seconds: began.elapsed().as_secs_f64(),
            packages_seconds,
        })
    }
}
