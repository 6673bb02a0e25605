#!/bin/busybox sh
# The initrd of a guest: finds the disks and hands over to /usr/sbin/guest-init of the root.
/bin/busybox mkdir -p /proc /sys /dev /new
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do
    /bin/busybox insmod "/modules/$module" || echo "initrd: no $module"
done </modules/order
while [ ! -b /dev/vda ] || [ ! -b /dev/vdb ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /new
/bin/busybox mount -t ext4 -o ro /dev/vdb /new/usr/local
/bin/busybox cp -a /site/. /new/
for dir in proc sys dev; do /bin/busybox mount --move "/$dir" "/new/$dir"; done
exec /bin/busybox switch_root /new /usr/sbin/guest-init
