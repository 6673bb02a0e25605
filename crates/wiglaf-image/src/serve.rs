//! `wiglaf image serve`: PCs whose MAC addresses are admitted start from the network and get the image.
//!
//! dnsmasq answers beside the network's own DHCP server as a proxy (PXE 2.1, 2.2.3): it gives no addresses, and only
//! tells admitted cards what to start. iPXE then fetches kernel and initrd from here. Whoever asks is known by the
//! MAC address that the kernel has for its IP address; which admitted PC gets what is asked for each time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::network;
use wiglaf_base::program::find_tool;
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::image::{Admitted, Image};
use wiglaf_cluster::power::Mac;

use crate::hostkey;
use crate::http::{self, Answer};
use crate::joining::{Installed, Newcomer, Waiting};
use crate::outside::{self, command, run};
use crate::write::{NodeSettings, image_len, settings};

/// Files of Debian's package ipxe, for BIOS and for UEFI.
const IPXE: [&str; 2] = ["/usr/lib/ipxe/undionly.kpxe", "/usr/lib/ipxe/snponly.efi"];
/// On to the next device. UEFI shows its menu after an option that has ended well, and takes the next one after one that
/// has failed (UEFI 2.10, 3.1.7).
const LEAVE: &str = "#!ipxe\nexit 1\n";
/// The folder of a server begins so, and its process's number follows.
const FOLDER: &str = "wiglaf-image-";
/// Between two looks for PCs that were installed.
const PAUSE: Duration = Duration::from_secs(5);
/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The image; kernel and initrd lie beside it.
    pub image: PathBuf,
    /// The TCP port that kernel, initrd and image are handed out at.
    pub port: u16,
    /// Nodes that are installed once more.
    pub again: Vec<String>,
}

/// What an installing PC is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) disk: String,
    pub(crate) mac: Mac,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) prefix: u8,
    pub(crate) image_bytes: u64,
}

impl Job {
    pub(crate) fn settings(&self) -> Result<NodeSettings> {
        let admitted = Admitted {
            mac: self.mac,
            disk: Some(self.disk.clone()),
            address: self.address,
            secure_boot: false,
        };
        settings(Some(&self.name), Some(&admitted), self.prefix)
    }
}

/// A server that may be started.
#[derive(Debug, Serialize)]
pub struct ServePlan {
    /// The interface in the data network, and this host's address there.
    pub interface: String,
    /// See above.
    pub address: Ipv4Addr,
    /// What dnsmasq reads.
    pub dnsmasq: String,
    /// The admitted PCs, a line each.
    pub admitted: Vec<String>,
    #[serde(skip)]
    options: ServeOptions,
    #[serde(skip)]
    hosts: Hosts,
    #[serde(skip)]
    image_bytes: u64,
}

/// The configuration of dnsmasq, whose files are in `folder`.
fn configuration(
    hosts: &Hosts,
    interface: &str,
    address: Ipv4Addr,
    port: u16,
    folder: &Path,
) -> String {
    let (network, prefix) = hosts.network.data.parts();
    let mask = Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0));
    let (signed, others) = match signed::has_any(hosts) {
        true => (signed::configuration(network, mask, address, folder), "tag:!signed,"),
        false => (String::new(), ""),
    };
    let folder = folder.display();
    let url = format!("http://{address}:{port}/boot.ipxe");
    // Another group than ours would have the kernel forget the signal at our death (prctl(2), PR_SET_PDEATHSIG).
    // A proxy: no addresses, no names. iPXE takes no file without the address of a server. Classes 7 and 9 are both 64-bit UEFI (RFC 4578, errata).
    format!(
        "port=0\ninterface={interface}\nexcept-interface=lo\nbind-interfaces\nlog-facility=-\nlog-dhcp\n\
         {signed}dhcp-range={others}{network},proxy,{mask}\ndhcp-hostsfile={folder}/admitted\ndhcp-ignore=tag:!admitted\n\
         dhcp-match=set:ipxe,175\nenable-tftp\ntftp-root={folder}/tftp\ntftp-secure\nuser=root\ngroup=root\n\
         pxe-service=tag:!ipxe,{others}x86PC,\"Wiglaf\",undionly.kpxe\n\
         pxe-service=tag:!ipxe,{others}BC_EFI,\"Wiglaf\",snponly.efi\n\
         pxe-service=tag:!ipxe,{others}X86-64_EFI,\"Wiglaf\",snponly.efi\n\
         dhcp-boot=tag:ipxe,{url},,{address}\n"
    )
}

/// dnsmasq with its files in `folder`: it ends with the thread that starts it, however that ends.
fn daemon(folder: &Path) -> Command {
    let tool = |name: &str| find_tool(name).unwrap_or_else(|| name.into());
    let mut daemon = Command::new(tool("setpriv"));
    daemon
        .args(["--pdeathsig", "KILL", "--"])
        .arg(tool("dnsmasq"))
        .arg("--keep-in-foreground")
        .arg(format!("--conf-file={}", folder.join("dnsmasq.conf").display()))
        .arg(format!("--pid-file={}", folder.join("pid").display()));
    daemon
}

/// Removes what servers have left that were killed.
fn clear(run: &Path) {
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Has dnsmasq read its configuration.
fn test(configuration: &Path) -> Result<()> {
    let file = format!("--conf-file={}", configuration.display());
    run(command("dnsmasq").arg("--test").arg(file), "").map(drop)
}

/// The MAC addresses that dnsmasq answers.
fn admitted_macs(hosts: &Hosts) -> String {
    let all = hosts.image.iter().flat_map(|image| image.admit.values());
    let line = |admitted: &Admitted| match signed::address(admitted) {
        Some(address) => format!("{},set:admitted,set:signed,{address}\n", admitted.mac),
        None if admitted.secure_boot => String::new(),
        None => format!("{},set:admitted\n", admitted.mac),
    };
    all.map(line).collect()
}

/// Says what would be served, after each look that may refuse it; nothing is changed.
///
/// # Errors
/// What is missing.
pub fn serve_plan(hosts: &Hosts, options: &ServeOptions) -> Result<ServePlan> {
    let data = hosts.network.data;
    let own = network::own_in(data).ok_or_else(|| {
        Error::new(format!(
            "this host has no address in the data network {data}; serve from one that has"
        ))
    })?;
    let image_bytes = image_len(&options.image)?;
    for extension in ["vmlinuz", "initrd"] {
        let path = options.image.with_extension(extension);
        if !path.is_file() {
            return Err(Error::new(format!(
                "{} is missing beside the image; run `wiglaf image build` again",
                path.display()
            )));
        }
    }
    if signed::has_any(hosts) {
        signed::check(&options.image)?;
    }
    let none = Image::default();
    let image = hosts.image.as_deref().unwrap_or(&none);
    if let Some(name) = options.again.iter().find(|name| !image.admit.contains_key(*name)) {
        return Err(Error::new(format!(
            "{name} is not admitted; run `wiglaf image admit MAC {name} --serial SERIAL` first"
        )));
    }
    let admitted = image.admit.iter().map(|(name, it)| {
        let disk = it.disk.as_ref().map_or_else(
            || "starts from its own disk: no serial number is named".to_owned(),
            |serial| format!("its disk {serial} is overwritten, once"),
        );
        let start = match signed::address(it) {
            Some(address) => format!("; starts signed files, and gets {address} for it"),
            None => String::new(),
        };
        format!("{name} ({}): {disk}{start}", it.mac)
    });
    let folder = Path::new("FOLDER");
    Ok(ServePlan {
        dnsmasq: configuration(hosts, &own.interface, own.address, options.port, folder),
        admitted: admitted.collect(),
        interface: own.interface,
        address: own.address,
        options: options.clone(),
        hosts: hosts.clone(),
        image_bytes,
    })
}

/// What the server knows while it runs.
struct Serving {
    plan: ServePlan,
    hosts: Mutex<Hosts>,
    /// MAC addresses with the serial numbers that were written, a line each.
    installed: Mutex<BTreeSet<String>>,
    state: PathBuf,
    refused: Mutex<BTreeSet<String>>,
    /// What dnsmasq hands out lies there.
    tftp: PathBuf,
    say: Say,
    /// Those that are to join, unless that is the user's business.
    waiting: Option<Waiting>,
}

type Say = Box<dyn Fn(&str) + Send + Sync>;

/// Joins a PC; answers what there is to say of it.
pub type Join = Box<dyn Fn(&Newcomer) -> Result<String> + Send + Sync>;

impl ServePlan {
    /// Serves until `is_over`. With `join`, PCs that were installed here are handed to it when they have started.
    ///
    /// # Errors
    /// When it cannot begin, or dnsmasq ends.
    pub fn serve(
        self,
        is_over: &AtomicBool,
        say: impl Fn(&str) + Send + Sync + 'static,
        join: Option<&Join>,
    ) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new("answering PCs that start takes root; run it with sudo"));
        }
        outside::check(&[("dnsmasq", "dnsmasq-base")])?;
        if let Some(file) = IPXE.iter().find(|file| !Path::new(file).is_file()) {
            return Err(Error::new(format!("{file} is missing here; run `apt-get install ipxe`")));
        }
        clear(Path::new("/run"));
        let folder = Path::new("/run").join(format!("{FOLDER}{}", std::process::id()));
        // Beside the image is written down who has it.
        let state = self.options.image.with_extension("installed");
        let done = self.serve_from(&folder, &state, is_over, Box::new(say), join);
        let _ = fs::remove_dir_all(&folder);
        done
    }

    fn serve_from(
        self,
        folder: &Path,
        state: &Path,
        is_over: &AtomicBool,
        say: Say,
        join: Option<&Join>,
    ) -> Result<()> {
        let cannot = || format!("write below {}", folder.display());
        let ServePlan { address, options, hosts, .. } = &self;
        let tftp = folder.join("tftp");
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&tftp)?;
            for file in IPXE {
                fs::copy(file, tftp.join(file.rsplit('/').next().unwrap_or(file)))?;
            }
            Ok(())
        };
        write().cannot(cannot)?;
        let listener = TcpListener::bind((*address, options.port))
            .cannot(|| format!("listen at {address}:{}", options.port))?;
        let macs: Vec<String> = options
            .again
            .iter()
            .filter_map(|name| Some(hosts.image.as_ref()?.admit.get(name)?.mac.to_string()))
            .collect();
        let known = fs::read_to_string(state).unwrap_or_default();
        let known = known.lines().filter(|line| !macs.iter().any(|mac| line.starts_with(mac)));
        let serving = Arc::new(Serving {
            hosts: Mutex::new(hosts.clone()),
            installed: Mutex::new(known.map(str::to_owned).collect()),
            state: state.to_owned(),
            refused: Mutex::default(),
            tftp,
            say,
            waiting: join
                .map(|_| Waiting::load(&options.image.with_extension("joining"), &options.again)),
            plan: self,
        });
        serving.prepare(folder)?;
        serving.remember()?;
        let mut daemon = serving.start(folder)?;
        let has_ended = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            if let Some(join) = join {
                let (serving, has_ended) = (&serving, &has_ended);
                scope.spawn(move || serving.join_all(join, &|| has_ended.load(Ordering::Relaxed)));
            }
            let done = serving.attend(&listener, &mut daemon, folder, is_over);
            // A PC that is being joined is joined whole.
            has_ended.store(true, Ordering::Relaxed);
            done
        });
        let _ = daemon.kill();
        let _ = daemon.wait();
        done
    }
}

impl Serving {
    /// Writes what dnsmasq reads.
    fn prepare(&self, folder: &Path) -> Result<()> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ServePlan { interface, address, options, .. } = &self.plan;
        if signed::has_any(&hosts) {
            signed::lay_out(&options.image, &self.tftp)?;
            self.tell_grub()?;
        }
        let file = folder.join("dnsmasq.conf");
        let text = configuration(&hosts, interface, *address, options.port, folder);
        fs::write(folder.join("admitted"), admitted_macs(&hosts))
            .and_then(|()| fs::write(&file, text))
            .cannot(|| format!("write below {}", folder.display()))?;
        test(&file)
    }

    /// Writes what GRUB does on PCs with Secure Boot.
    fn tell_grub(&self) -> Result<()> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let file = self.tftp.join("grub/grub.cfg");
        if !file.parent().is_some_and(Path::is_dir) {
            return Ok(());
        }
        let image = hosts.image.unwrap_or_default();
        let signed = image.admit.values().filter(|it| signed::address(it).is_some());
        let due =
            signed.filter(|it| it.disk.as_ref().is_some_and(|disk| self.is_due(it.mac, disk)));
        let text =
            signed::grub(&due.map(|it| (it.mac, self.arguments(it.mac))).collect::<Vec<_>>());
        let new = file.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &file))
            .cannot(|| format!("write {}", file.display()))
    }

    /// Whether that disk of that PC was not written yet.
    fn is_due(&self, mac: Mac, disk: &str) -> bool {
        !self.installed.lock().unwrap_or_else(PoisonError::into_inner).contains(&mark(mac, disk))
    }

    /// Starts dnsmasq, and hears what it says.
    fn start(self: &Arc<Self>, folder: &Path) -> Result<Child> {
        let mut command = daemon(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut daemon = command.spawn().cannot(|| "start dnsmasq".to_owned())?;
        let (own, log) = (Arc::clone(self), daemon.stderr.take());
        std::thread::spawn(move || {
            for line in
                BufReader::new(log.into_iter().next()?).lines().map_while(std::io::Result::ok)
            {
                own.heard(&line);
            }
            Some(())
        });
        Ok(daemon)
    }

    fn attend(
        self: &Arc<Self>,
        listener: &TcpListener,
        daemon: &mut Child,
        folder: &Path,
        is_over: &AtomicBool,
    ) -> Result<()> {
        listener.set_nonblocking(true).cannot(|| "listen".to_owned())?;
        let count = Arc::new(AtomicUsize::new(0));
        let file = self.plan.hosts.file.clone();
        let mut text = fs::read_to_string(&file).unwrap_or_default();
        let mut rounds = 0u32;
        while !is_over.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) if count.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                    count.fetch_add(1, Ordering::Relaxed);
                    let (own, count) = (Arc::clone(self), Arc::clone(&count));
                    std::thread::spawn(move || {
                        // Whoever goes away early hears nothing.
                        let _ = own.talk(&stream);
                        count.fetch_sub(1, Ordering::Relaxed);
                    });
                    continue;
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
            rounds += 1;
            if !rounds.is_multiple_of(20) {
                continue;
            }
            if let Ok(Some(status)) = daemon.try_wait() {
                return Err(Error::new(format!(
                    "dnsmasq has ended ({status}); does another one listen at {}?",
                    self.plan.interface
                )));
            }
            // Whom somebody has admitted meanwhile.
            let now = fs::read_to_string(&file).unwrap_or_default();
            if now != text
                && let Ok(hosts) = Hosts::parse(&now, &file)
            {
                text = now;
                *self.hosts.lock().unwrap_or_else(PoisonError::into_inner) = hosts;
                if let Err(error) = self.prepare(folder) {
                    self.say(&error.to_string());
                    continue;
                }
                // Anew, because Debian 12's may crash where it is asked to read its file of hosts again. It has no leases
                // that could be lost, and who asks at this moment asks again.
                let _ = daemon.kill();
                let _ = daemon.wait();
                *daemon = self.start(folder)?;
                self.say("the cluster file was read again");
            }
        }
        Ok(())
    }

    /// Looks for PCs that were installed, and joins those that have started.
    fn join_all(&self, join: &Join, is_over: &dyn Fn() -> bool) {
        while !is_over() {
            for (name, installed) in self.waiting.iter().flat_map(Waiting::all) {
                if is_over() {
                    return;
                }
                if let Err(error) = self.join_one(join, &name, &installed) {
                    self.say_once(&error.to_string());
                }
            }
            let until = std::time::Instant::now() + PAUSE;
            while !is_over() && std::time::Instant::now() < until {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn join_one(&self, join: &Join, name: &str, installed: &Installed) -> Result<()> {
        let Some(waiting) = &self.waiting else { return Ok(()) };
        let admitted = self.admitted(installed.mac).filter(|(now, ..)| now == name);
        let Some((_, admitted, _)) = admitted else {
            self.say(&format!("{name}: is not admitted any more, and is not joined"));
            return waiting.forget(name);
        };
        let arp = fs::read_to_string("/proc/net/arp").unwrap_or_default();
        let mut addresses: Vec<Ipv4Addr> = admitted.address.into_iter().collect();
        addresses.push(installed.from);
        addresses.extend(addresses_of(&arp, installed.mac, &self.plan.interface));
        addresses.dedup();
        if let Some(newcomer) = installed.find(name, &addresses)? {
            let said = join(&newcomer)?;
            waiting.forget(name)?;
            self.say(&said);
        }
        Ok(())
    }

    fn say_once(&self, text: &str) {
        if self.waiting.as_ref().is_some_and(|waiting| waiting.is_news(text)) {
            self.say(text);
        }
    }

    fn say(&self, text: &str) {
        (self.say)(text);
    }

    /// A line of dnsmasq's log: only what it ignores is news.
    fn heard(&self, line: &str) {
        if let Some(mac) = ignored(line)
            && self.admitted(mac).is_none()
        {
            self.turned_away(&mac.to_string());
        }
    }

    /// Says it once for each.
    fn turned_away(&self, mac: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.insert(mac.to_owned()) {
            self.say(&format!(
                "{mac} asks for a start and is not admitted; if it is yours, run `wiglaf image admit {mac} NAME \
                 --serial SERIAL`"
            ));
        }
    }

    /// The admitted PC of that MAC address.
    fn admitted(&self, mac: Mac) -> Option<(String, Admitted, u8)> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let found = hosts.image.as_ref()?.admit.iter().find(|(_, it)| it.mac == mac)?;
        Some((found.0.clone(), found.1.clone(), hosts.network.data.parts().1))
    }

    fn talk(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        let (method, path) = http::request(stream)?;
        let answer = match stream.peer_addr()?.ip() {
            IpAddr::V4(peer) => self.answer(peer, &method, &path),
            IpAddr::V6(_) => Answer::Refused(403, "Forbidden"),
        };
        http::answer(stream, answer, method != "HEAD")
    }

    fn answer(&self, peer: Ipv4Addr, method: &str, path: &str) -> Answer {
        let arp = fs::read_to_string("/proc/net/arp").unwrap_or_default();
        let Some(mac) = mac_of(&arp, peer, &self.plan.interface) else {
            return Answer::Refused(403, "Forbidden");
        };
        let Some((name, admitted, prefix)) = self.admitted(mac) else {
            self.turned_away(&mac.to_string());
            return Answer::Refused(403, "Forbidden");
        };
        let image = &self.plan.options.image;
        let file = |path: &Path| match File::open(path).and_then(|f| Ok((f.metadata()?.len(), f))) {
            Ok((len, file)) => Answer::File(file, len),
            Err(_) => Answer::Refused(404, "Not Found"),
        };
        let due = admitted.disk.clone().filter(|disk| self.is_due(mac, disk));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match (method, path, due) {
            ("GET", "/boot.ipxe", due) => {
                self.say(&match (&due, &admitted.disk) {
                    (Some(disk), _) => format!("{name}: starts to write its disk {disk}"),
                    (None, Some(_)) => format!("{name}: is installed, and starts from its disk"),
                    (None, None) => format!(
                        "{name}: no disk of it may be overwritten, so it starts from its own; name one with `wiglaf \
                         image admit {mac} {name} --serial SERIAL`"
                    ),
                });
                Answer::Text(due.map_or_else(|| LEAVE.to_owned(), |_| self.script(mac)))
            }
            ("GET" | "HEAD", "/vmlinuz", Some(_)) => file(&image.with_extension("vmlinuz")),
            ("GET" | "HEAD", "/initrd", Some(_)) => file(&image.with_extension("initrd")),
            ("GET", "/image", Some(_)) => file(image),
            ("GET", "/job", Some(disk)) => {
                if admitted.secure_boot {
                    // GRUB asks for nothing here.
                    self.say(&format!("{name}: starts to write its disk {disk}"));
                }
                let job = Job {
                    name,
                    disk,
                    mac,
                    address: admitted.address,
                    prefix,
                    image_bytes: self.plan.image_bytes,
                };
                serde_json::to_string(&job)
                    .map_or(Answer::Refused(500, "Internal Server Error"), Answer::Text)
            }
            ("POST", "/done", Some(disk)) => {
                if !query.is_empty() && !hostkey::is_public(query) {
                    return Answer::Refused(400, "Bad Request");
                }
                self.is_to_join(&name, Installed { mac, from: peer, key: query.to_owned() });
                self.installed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(mark(mac, &disk));
                match self.remember() {
                    Ok(()) => {
                        self.say(&format!("{name}: its disk is written; it starts from it now"));
                        Answer::Text("ok\n".to_owned())
                    }
                    Err(error) => {
                        self.say(&error.to_string());
                        Answer::Refused(500, "Internal Server Error")
                    }
                }
            }
            _ => Answer::Refused(404, "Not Found"),
        }
    }

    /// Remembers a PC that has told its key.
    fn is_to_join(&self, name: &str, installed: Installed) {
        if let Some(waiting) = self.waiting.as_ref().filter(|_| !installed.key.is_empty())
            && let Err(error) = waiting.add(name, installed)
        {
            self.say(&format!("{error}; join it by hand: `wiglaf join {name}`"));
        }
    }

    fn server(&self) -> String {
        format!("http://{}:{}", self.plan.address, self.plan.options.port)
    }

    /// The kernel's arguments on a PC that is to be installed.
    fn arguments(&self, mac: Mac) -> String {
        // As PXELINUX hands it on: the kind of hardware in front.
        let card = format!("01-{}", mac.to_string().replace(':', "-"));
        format!(
            "boot=wiglaf wiglaf.server={} ip=dhcp BOOTIF={card} console=ttyS0,115200n8 console=tty0 panic=30",
            self.server()
        )
    }

    /// What iPXE does there.
    fn script(&self, mac: Mac) -> String {
        let (server, arguments) = (self.server(), self.arguments(mac));
        format!(
            "#!ipxe\nkernel {server}/vmlinuz initrd=initrd {arguments} || exit 1\n\
             initrd --name initrd {server}/initrd || exit 1\nboot || exit 1\n"
        )
    }

    /// Writes down who is installed, before anybody is told that it is.
    fn remember(&self) -> Result<()> {
        let installed = self.installed.lock().unwrap_or_else(PoisonError::into_inner);
        let text: String = installed.iter().map(|line| format!("{line}\n")).collect();
        let new = self.state.with_extension("installed.new");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.state)
        };
        write().cannot(|| format!("write {}", self.state.display()))?;
        drop(installed);
        self.tell_grub()
    }
}

/// The line of a PC whose disk was written.
fn mark(mac: Mac, disk: &str) -> String {
    format!("{mac} {disk}")
}

/// The card that asks for a start and that dnsmasq says it ignores.
fn ignored(line: &str) -> Option<Mac> {
    let is_ignored = line.ends_with("proxy-ignored");
    line.split_whitespace().find_map(|word| word.parse().ok()).filter(|_| is_ignored)
}

/// The MAC address that the kernel's table has for an address on that interface.
fn mac_of(arp: &str, peer: Ipv4Addr, interface: &str) -> Option<Mac> {
    arp.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [ip, _, _, mac, _, device] = fields[..] else { return None };
        (ip.parse() == Ok(peer) && device == interface).then(|| mac.parse().ok())?
    })
}

/// The addresses that the kernel's table has for a card on that interface.
fn addresses_of(arp: &str, mac: Mac, interface: &str) -> Vec<Ipv4Addr> {
    let addresses =
        arp.lines().skip(1).filter_map(|line| line.split_whitespace().next()?.parse().ok());
    addresses.filter(|address| mac_of(arp, *address, interface) == Some(mac)).collect()
}

mod signed;
#[cfg(test)]
mod tests;
