//! Frames that the kernel cannot describe to the ring: they come from a virtual machine, played by a
//! network interface whose other end is a file.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;

use wiglaf_link::frame::headers_of_train;

use super::*;

const TAP: &str = "tap0";
const TAP_IP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const GUEST_IP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

/// `VIRTIO_NET_HDR_GSO_UDP`: a datagram that is to be cut into fragments.
const KIND_UFO: u8 = 3;

/// Before a frame of that kind, which is else as a train's.
fn ufo() -> [u8; OFFLOAD_LEN] {
    let mut bytes = offload::train(1000);
    bytes[1] = KIND_UFO;
    bytes
}

/// The end of an interface of `node` where frames are written, each behind what tells of trains.
fn tap(node: &Node) -> Option<File> {
    /// Of linux/if_tun.h.
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    let file = node.run(|| File::options().read(true).write(true).open("/dev/net/tun"));
    let Ok(file) = file else {
        eprintln!("skipped: no /dev/net/tun here");
        return None;
    };
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(TAP.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as _;
    // SAFETY: the request is live and its name ends with a zero byte.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    assert_eq!(status, 0, "{}", io::Error::last_os_error());
    node.ip(&["address", "add", &format!("{TAP_IP}/24"), "dev", TAP]).expect("an address");
    node.ip(&["link", "set", TAP, "up"]).expect("up");
    Some(file)
}

/// Looks often enough that the link also looks after its ring.
fn look(link: &mut PacketLink) -> usize {
    let mut got = 0;
    for _ in 0..=REPORT_STRIDE {
        link.recv(&mut |_, _| got += 1).expect("the link works");
        assert_eq!(link.take_unreachable(), None);
    }
    got
}

#[test]
fn a_frame_that_the_ring_cannot_describe_makes_nobody_deaf() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(mut tap) = tap(&pair.a) else { return };
    let interface = pair.a.run(|| interface::holding(TAP_IP));
    let interface = interface.expect("readable").expect("it was made");
    let to_mac = interface.mac.expect("Ethernet");
    let at = SocketAddrV4::new(TAP_IP, 0);
    let mut link = pair.a.run(|| PacketLink::open(interface, at)).expect("root may");
    let ends = Ends {
        from_mac: [2, 0, 0, 0, 0, 9],
        to_mac,
        from: SocketAddrV4::new(GUEST_IP, 777),
        to: link.local(),
    };
    let plain = [&offload::NONE, &headers(&ends, 8).expect("it fits")[..], &[1; 8]].concat();
    let train = headers_of_train(&ends, 3000).expect("it fits");
    let train = [&ufo(), &train[..], &[2; 3000]].concat();
    // Who has the socket from the helper may not open another.
    pair.a.run(|| {
        give_up_capabilities();
        tap.write_all(&plain).expect("taken");
        assert_eq!(look(&mut link), 1, "not yet blocked");
        for round in 1..=3 {
            tap.write_all(&train).expect("taken");
            tap.write_all(&plain).expect("taken");
            assert_eq!(look(&mut link), 0);
            assert_eq!(link.overflows(), 3 * round - 1, "both are counted");
            tap.write_all(&plain).expect("taken");
            assert_eq!(
                look(&mut link),
                0,
                "only now it is plain that the ring is not full but blocked"
            );
            assert_eq!(link.overflows(), 3 * round);
            for _ in 0..2 * PLACE_COUNT {
                tap.write_all(&plain).expect("taken");
                assert_eq!(receive(&mut link, 1).len(), 1);
            }
        }
    });
    assert_eq!((link.malformed(), link.lost(), link.overflows()), (0, 0, 9));
}
