# Runs /w/inside.sh in a root of Debian, in the namespaces that `unshare` has just made.
#   $1 the root, $2 what is installed over it, $3 a folder for this run, $4 a folder of MPIs
# All that is written in the root goes to memory, so that the root stays as it was made.
set -eu
dir=$3/mounts
mkdir -p "$dir"
mount -t tmpfs tmpfs "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=$2:$1,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
root=$dir/root
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
# What /dev of a machine has, as far as programs ask for it.
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 fuse:10:229; do
    IFS=: read -r name major minor <<< "$node"
    mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/mpi" "$root/w"
if [ -d "$4" ]; then mount --bind "$4" "$root/mpi"; fi
mount --bind "$3/w" "$root/w"
hostname debian
ip link set lo up
cd "$root"
exec chroot "$root" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 ROUNDS="${ROUNDS:-}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /w/inside.sh
