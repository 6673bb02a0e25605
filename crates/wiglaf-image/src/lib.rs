//! Images of nodes. `build` makes one from Debian's packages with this Wiglaf, the cluster's users and their keys, and
//! nothing that tells one node from another: `share/first-boot.sh` makes that on each node; `like` makes it as a configured host is. `write` puts it on a disk
//! that was named by its serial number. `serve` has admitted PCs start from the network and do so by `install`. No boot loader, package manager or file system is written here: `root` calls
//! mmdebstrap, `disk` GRUB, sfdisk, mke2fs and mtools,
//! `serve` dnsmasq and iPXE.

#![forbid(unsafe_code)]

mod build;
mod cpio;
mod disk;
mod hostkey;
mod http;
mod install;
mod joining;
mod like;
mod netboot;
mod outside;
mod release;
mod root;
mod serve;
mod users;
mod write;

pub use build::{Built, Options, Plan, plan};
pub use hostkey::HostKey;
pub use install::install;
pub use joining::Newcomer;
pub use release::Release;
pub use serve::{Join, ServeOptions, ServePlan, serve_plan};
pub use users::Account;
pub use write::{Checked, Machine, NodeSettings, Target, Written, image_len, settings};
