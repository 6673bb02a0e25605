#!/bin/sh
# Makes what tells this node from others, once: its size, name, address, ssh and munge keys. systemd makes the machine-id.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
root=$(findmnt -n -o SOURCE /)
part=$(basename "$(readlink -f "$root")")
disk=$(basename "$(readlink -f "/sys/class/block/$part/..")")
number=$(cat "/sys/class/block/$part/partition")

# What `wiglaf image write` has written to the partition of settings: lines of a word and a value.
name='' address='' mac='' key='' from=''
for other in "/sys/class/block/$disk/$disk"*; do
    [ "$(cat "$other/partition")" = 3 ] || continue
    from=/dev/${other##*/}
    settings=$(tr -d '\000' <"$from" | head -c 4096)
    while read -r word value; do
        case "$word" in
        name) name=$value ;;
        address) address=$value ;;
        mac) mac=$value ;;
        key) key=$value ;;
        esac
    done <<EOF
$settings
EOF
done

# The file system gets the whole disk, and the partition table its copy at the disk's end.
echo ', +' | sfdisk --quiet --no-reread --force -N "$number" "/dev/$disk" &&
    partx --update --nr "$number" "/dev/$disk" && resize2fs "$root" ||
    echo "the root file system keeps its size" >&2

if [ -z "$name" ]; then
    for card in /sys/class/net/e*; do
        name=node-$(tr -d : <"$card/address" | tail -c 7)
        break
    done
fi
echo "$name" >/etc/hostname
echo "$name" >/proc/sys/kernel/hostname

if [ -n "$address" ] && [ -n "$mac" ]; then
    printf '[Match]\nMACAddress=%s\n\n[Network]\nDHCP=yes\nAddress=%s\n\n[DHCPv4]\nClientIdentifier=mac\n' \
        "$mac" "$address" >/etc/systemd/network/10-wiglaf-data.network
fi

# The key that the installer has told the server; the others are made here.
if [ -n "$key" ]; then
    file=/etc/ssh/ssh_host_ed25519_key
    (umask 077 && { echo '-----BEGIN OPENSSH PRIVATE KEY-----'; echo "$key" | fold -w 70
        echo '-----END OPENSSH PRIVATE KEY-----'; } >"$file") && ssh-keygen -y -f "$file" >"$file.pub" || rm -f "$file"
fi
ssh-keygen -A
if [ -x /usr/sbin/mungekey ] && [ ! -e /etc/munge/munge.key ]; then
    mungekey --create --keyfile=/etc/munge/munge.key && chown munge: /etc/munge/munge.key
    # `wiglaf batch setup` replaces this one, which is no cluster's.
    mkdir -p /var/lib/wiglaf && sha256sum </etc/munge/munge.key >/var/lib/wiglaf/first-munge-key
fi
mkdir -p /var/lib/wiglaf
echo "$name" >/var/lib/wiglaf/first-boot
sync
# What it was told is kept nowhere else.
if [ -n "$from" ]; then
    dd if=/dev/zero of="$from" bs=4096 count=1 conv=fsync 2>/dev/null
fi
