//! PCs whose firmware has Secure Boot on: they start Debian's signed shim and GRUB, which start Debian's signed kernel.
//!
//! Debian's GRUB asks the DHCP server that has given the address for its files, never a proxy, and Debian 12's signed one
//! speaks TFTP alone. So such a PC gets its address from dnsmasq here while its firmware starts, and everything by TFTP.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::image::Admitted;
use wiglaf_cluster::power::Mac;

use crate::disk::LABEL;

/// What lies beside an image by its extension, and what firmware, shim and GRUB ask for.
const FILES: [(&str, &str); 4] = [
    ("shim", "shimx64.efi"),
    ("grub", "grubx64.efi"),
    ("vmlinuz", "vmlinuz"),
    ("initrd", "initrd"),
];

/// The address that a PC gets to start signed files by; none is for others, or where nothing may be written, so that it
/// starts from its own disk.
pub(super) fn address(admitted: &Admitted) -> Option<Ipv4Addr> {
    admitted.address.filter(|_| admitted.secure_boot && admitted.disk.is_some())
}

/// Whether there is such a PC.
pub(super) fn has_any(hosts: &Hosts) -> bool {
    hosts.image.iter().flat_map(|image| image.admit.values()).any(|it| address(it).is_some())
}

/// What dnsmasq is told so that these PCs, and while they start nobody else, get their addresses from it.
/// The range comes before a proxy's: dnsmasq 2.90 gives no addresses of one that comes behind.
pub(super) fn configuration(
    network: Ipv4Addr,
    mask: Ipv4Addr,
    address: Ipv4Addr,
    folder: &Path,
) -> String {
    // Option 60 says that a boot server speaks, and 6 of the vendor's options that none is to be looked for (PXE 2.1, table 2-1).
    format!(
        "dhcp-range=tag:signed,{network},static,{mask},2m\ndhcp-leasefile={}/leases\n\
         dhcp-vendorclass=set:pxe,PXEClient\ndhcp-ignore=tag:!pxe\n\
         dhcp-boot=tag:signed,shimx64.efi,,{address}\ndhcp-option-force=tag:signed,60,PXEClient\n\
         dhcp-option-force=tag:signed,vendor:PXEClient,6,8\ndhcp-option=tag:signed,3\n",
        folder.display()
    )
}

/// Lays the files out for TFTP.
///
/// # Errors
/// When one is missing beside the image, or cannot be copied.
pub(super) fn lay_out(image: &Path, tftp: &Path) -> Result<()> {
    check(image)?;
    for (extension, name) in FILES {
        let from = image.with_extension(extension);
        // Copied: dnsmasq hands out only what is root's.
        fs::copy(&from, tftp.join(name))
            .cannot(|| format!("copy {} to {}", from.display(), tftp.display()))?;
    }
    let folder = tftp.join("grub");
    fs::create_dir_all(&folder).cannot(|| format!("make the folder {}", folder.display()))
}

/// Fails where one of the files is missing beside the image.
pub(super) fn check(image: &Path) -> Result<()> {
    let mut files = FILES.iter().map(|(extension, _)| image.with_extension(extension));
    match files.find(|path| !path.is_file()) {
        None => Ok(()),
        Some(path) => Err(Error::new(format!(
            "{}, which a PC with Secure Boot starts by, is missing beside the image; run `wiglaf image build` again",
            path.display()
        ))),
    }
}

/// What GRUB does: PCs that are due start the installer, with these arguments of the kernel's; others start from the disk
/// that was written.
pub(super) fn grub(due: &[(Mac, String)]) -> String {
    let mut text = "set timeout=0\n".to_owned();
    for (mac, arguments) in due {
        let _ = writeln!(
            text,
            "if [ \"$net_default_mac\" = \"{mac}\" ]; then\n  linux /vmlinuz {arguments}\n  initrd /initrd\n  boot\nfi"
        );
    }
    // GRUB tells the firmware at its end that all is well, and that shows its menu: so the disk is started from here.
    text + &format!(
        "if search --no-floppy --label --set=root {LABEL}; then configfile ($root)/boot/grub/grub.cfg; fi\nexit\n"
    )
}
