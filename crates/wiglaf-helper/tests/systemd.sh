#!/bin/sh
# Boots systemd with nothing but the basics and wiglaf-helper's units, in the namespaces
# that this was started in: systemd.sh FOLDER HELPER UNITS CLIENT
set -eu
folder=$1 helper=$2 units=$3 client=$4
mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
root=$folder/root
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
if [ -e /dev/cpu_dma_latency ]; then
    touch "$root/dev/cpu_dma_latency"
    mount --bind /dev/cpu_dma_latency "$root/dev/cpu_dma_latency"
fi
mkdir "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages" "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"

# Where the unit has it, and nothing else that the machine would start.
install -D -m 755 "$helper" "$root/usr/local/sbin/wiglaf-helper"
# Where it was built may be hidden here: below /tmp, or in another mount.
install -D -m 755 "$client" "$root/usr/local/bin/client"
rm -rf "$root/etc/systemd/system"
install -D -m 644 -t "$root/etc/systemd/system" "$units/wiglaf-helper.service" "$units/wiglaf-helper.socket"
systemctl --quiet --root "$root" enable wiglaf-helper
mkdir -p "$root/etc/wiglaf"
printf "[[admit]]\nusers = [61001]\nlinks = ['packet']\ntune = ['10.78.0.0/24']\n" > "$root/etc/wiglaf/helper.toml"

ip link set lo up
ip link add wl0 type veth peer name wl1
ip address add 10.77.0.1/24 dev wl0
ip link set wl0 up
ip link set wl1 up
# A card that has something to tune, where there are taps.
if ip tuntap add tap0 mode tap; then
    ip address add 10.78.0.1/24 dev tap0
    ip link set tap0 up
fi
exec chroot "$root" /usr/bin/env -i container=wiglaf-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=multi-user.target --log-level=warning
