#!/bin/sh
# The first process of a guest, in place of systemd: network cards, SSH server, helper.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
ln -sf /proc/self/fd /dev/fd
mkdir -p /run/sshd /run/user
for module in e1000e virtio_net 8139cp vmxnet3 fuse; do
    modprobe "$module" || echo "guest-init: no $module"
done
# Every card's address on the wire says its IP address; the third byte tells the networks apart.
ip link set lo up
for card in /sys/class/net/*; do
    IFS=: read -r a b c d e f <"$card/address"
    [ "$a$b" = 0200 ] || continue
    case "$c$d$e" in
    c0a851) name=e1000e ;;
    c0a852) name=virtio ;;
    c0a853) name=rtl8139 ;;
    c0a854) name=vmxnet3 ;;
    *) name=admin ;;
    esac
    echo 1 >"/proc/sys/net/ipv6/conf/${card##*/}/disable_ipv6"
    ip link set "${card##*/}" name "$name"
    ip address add "$(printf '%d.%d.%d.%d' "0x$c" "0x$d" "0x$e" "0x$f")/24" dev "$name"
    ip link set "$name" up
    [ "$name" != admin ] || printf 'g%d\n' "0x$f" >/proc/sys/kernel/hostname
done
/usr/sbin/sshd -E /var/log/sshd.log
wiglaf-helper </dev/null >/var/log/helper.log 2>&1 &
echo "guest-init: $(cat /proc/sys/kernel/hostname) is up"
while :; do sleep 3600 & wait; done
