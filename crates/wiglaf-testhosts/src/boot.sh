# The first process of a stand-in host: builds its root, then reaps what dies (bash does, while it
# reads) and ends with its standard input, and the kernel ends all of the host with it.
#
# In: BASE the host's folder on disk, LOWER the root that it is based on, NAME its host name, HIDE the
# folders of LOWER that it must not see, a line each, BINDS pairs of lines: source and target.
# Out: `rooted PID`, then waits for `go`, runs /etc/testhosts/start, says `up`.
set -eu
umask 022
# /proc is still the machine's: this is the process number there.
read -r outer rest </proc/self/stat
cd "$BASE"
mount --make-rprivate /
mkdir -p upper work root home root-home var-tmp
chmod 700 root-home
chmod 1777 var-tmp
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$BASE/upper,workdir=$BASE/work" root
cd root

# Nobody reads manual pages there, and dpkg would look through all of them after each package.
rm -f var/lib/man-db/auto-update

# Homes and data of the machine are not the host's.
while IFS= read -r dir; do
    [ -z "$dir" ] || [ ! -d ".$dir" ] || [ -L ".$dir" ] || mount -t tmpfs -o mode=755 hidden ".$dir"
done <<EOF
$HIDE
EOF
mkdir -p home root proc sys dev run tmp var/tmp
mount --bind "$BASE/home" home
mount --bind "$BASE/root-home" root
mount --bind "$BASE/var-tmp" var/tmp
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
mkdir -p run/sshd run/user run/lock
chmod 1777 run/lock

mount -t tmpfs -o mode=755,nosuid dev dev
while read -r name major minor; do
    mknod -m 666 "dev/$name" c "$major" "$minor"
done <<EOF
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
EOF
mkdir dev/pts dev/shm dev/net
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,mode=620,ptmxmode=666,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t sysfs -o nosuid,nodev,noexec sysfs sys
mount -t proc -o nosuid,nodev,noexec proc proc

while IFS= read -r from && IFS= read -r to; do
    [ -n "$from" ] || continue
    if [ -d "$from" ]; then mkdir -p ".$to"; else mkdir -p ".${to%/*}" && touch ".$to"; fi
    mount --bind "$from" ".$to"
done <<EOF
$BINDS
EOF

echo "$NAME" >proc/sys/kernel/hostname
mkdir -p .machine
pivot_root . .machine
cd /
umount -l /.machine
rmdir /.machine

echo "rooted $outer"
read -r word
[ "$word" = go ]
/etc/testhosts/start </dev/null >/var/log/testhosts.log 2>&1
echo up
while read -r word; do :; done
