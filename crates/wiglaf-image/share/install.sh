# Read by the initrd's /init for `boot=wiglaf`: writes the node's image to the disk that the server names, and
# starts again. In place of a root file system there is none.
mountroot()
{
    server=
    for word in $(cat /proc/cmdline); do
        case "$word" in wiglaf.server=*) server=${word#wiglaf.server=} ;; esac
    done
    # Its arguments are the kernel's `ip=` and `BOOTIF=`.
    configure_networking
    udevadm settle --timeout=60
    echo "wiglaf: asking $server what to do" >/dev/console
    until /usr/local/bin/wiglaf image install --server "$server" >/dev/console 2>&1; do
        echo "wiglaf: trying again in 20 s" >/dev/console
        sleep 20
    done
    sync
    reboot -f
    sleep 60
}
