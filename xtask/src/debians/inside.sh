# What a new user does first, in a root of Debian with this build installed. Each line of standard
# output is a result: pass, fail or skip, its name, and why; what a check printed is in /w/logs.
# ROUNDS is `long` for all links on all MPIs, and the demonstration.
set -u
export WIGLAF_MPI_PATH
WIGLAF_MPI_PATH=$(echo /mpi/* | tr ' ' ':')
mkdir -p /w/logs /root/work
cd /root/work || exit 1

# check NAME COMMAND...: passes when the command does, and it has a minute for that.
check() {
    local name=$1 log began status
    shift
    log=/w/logs/$(echo "$name" | tr -c 'A-Za-z0-9.\n' '-').log
    began=$SECONDS
    timeout --kill-after=10 "${LIMIT:-60}" "$@" > "$log" 2>&1 < /dev/null
    status=$?
    case $status in
        0) echo "pass|$name|$((SECONDS - began)) s$(sed -n 's/^\(wiglaf\|tcp\) \(.* ms\) of .*/, \1 \2/p' "$log" | tr -d '\n')" ;;
        *) echo "fail|$name|status $status: $(grep -v '^-*$' "$log" | tail -n 1 | cut -c 1-160)" ;;
    esac
}

# expect TEXT COMMAND...: the command must succeed and print a line with that text for each rank.
cat > /usr/local/bin/expect-ranks <<'X'
#!/bin/bash
text=$1; ranks=$2; shift 2
out=$("$@" 2>&1); status=$?
echo "$out"
[ "$status" = 0 ] || exit "$status"
for ((rank = 0; rank < ranks; rank++)); do
    grep -q "rank $rank of $ranks.*$text" <<< "$out" || { echo "rank $rank did not say: $text"; exit 1; }
done
# Anything else is a complaint that users would have to read.
rest=$(grep -v "^rank [0-9]* of $ranks" <<< "$out" | grep -v '^$')
[ -z "$rest" ] || { echo "besides, it said: $(head -n 1 <<< "$rest")"; exit 1; }
X
chmod +x /usr/local/bin/expect-ranks

cp /w/sources/* .
for mpi in openmpi mpich; do
    for program in hello windows init; do
        check "compile $program.c, $mpi" "mpicc.$mpi" -O1 -o "$program.$mpi" "$program.c"
    done
    check "compile plugin.c, $mpi" "mpicc.$mpi" -shared -fPIC -o "plugin.$mpi.so" plugin.c
    check "compile hello.f90, $mpi" "mpifort.$mpi" -o "fortran.$mpi" hello.f90
done
check "compile host.c" cc -o host host.c -ldl

# Nodes know the users that there are when they begin.
echo 'ann:*:61001:61001::/home/ann:/bin/bash' >> /etc/passwd
echo 'ann:*:61001:' >> /etc/group
install -o ann -g ann -d /home/ann /home/ann/work
doctor() { wiglaf doctor > doctor; cat doctor; ! grep -q ' missing ' doctor; }
export -f doctor
check "doctor" bash -c doctor
check "up" wiglaf up

# Family, what --mpi is given, and whether programs in Fortran run on it. They have Debian's library,
# which calls functions of its own MPICH's version; the wheels of Open MPI have another interface.
debians_mpich=$(dpkg-query -W -f '${Version}' mpich | sed 's/.*really//; s/[-+].*//')
debians_openmpi=$(dpkg-query -W -f '${Version}' openmpi-bin | cut -d . -f 1)
mpis=("openmpi openmpi=/usr fortran")
for prefix in /mpi/openmpi-* /mpi/mpich-*; do
    [ -d "$prefix" ] || continue
    IFS=- read -r family version <<< "$(basename "$prefix")"
    # Its libfabric is older than what libraries of Debian's Open MPI 6 take, which programs built there load.
    if [ "$family-$version" = openmpi-5.0.8 ] && [ "$debians_openmpi" -ge 6 ]; then continue; fi
    fortran=none
    newest=$(printf '%s\n' "$debians_mpich" "$version" | sort --version-sort | tail -n 1)
    if [ "$family" = mpich ] && [ "$newest" = "$version" ]; then fortran=fortran; fi
    mpis+=("$family $family=$prefix $fortran")
done
for line in "${mpis[@]}"; do
    read -r family choice fortran <<< "$line"
    run=(wiglaf run --mpi "$choice")
    name=${choice#*=/mpi/}
    name=${name/=\/usr/ of Debian}
    links="auto udp shm"
    if [ "$ROUNDS" = long ]; then links="auto packet udp xdp shm"; fi
    for link in $links; do
        nodes=()
        if [ "$link" = shm ]; then nodes=(--nodes node1); fi
        check "$name: hello, $link" \
            expect-ranks "on node" 2 "${run[@]}" --link "$link" "${nodes[@]}" -n 2 -- "./hello.$family"
    done
    check "$name: hello over TCP" \
        expect-ranks "on node" 2 "${run[@]}" --transport tcp -n 2 -- "./hello.$family"
    check "$name: windows" expect-ranks "right" 2 "${run[@]}" -n 2 -- "./windows.$family"
    check "$name: loaded by dlopen" \
        expect-ranks "sum 1" 2 "${run[@]}" -n 2 -- ./host "./plugin.$family.so"
    if [ "$fortran" = fortran ]; then
        check "$name: hello in Fortran" \
            expect-ranks "sum 1" 2 "${run[@]}" -n 2 -- "./fortran.$family"
    fi
    if [ "$family" = openmpi ]; then
        check "$name: mpi4py" expect-ranks "sum 1" 2 "${run[@]}" -n 2 -- python3 hello.py
        hosts="--host"
    else
        hosts="-hosts"
    fi
    check "$name: its own launcher" expect-ranks "on node" 2 wiglaf exec -w node1 -- \
        sh -c "eval \"\$(wiglaf env $choice)\"; mpiexec -n 2 $hosts node1,node2 ./hello.$family"
done
# Figures, and no verdict: the median of five runs over each, one after the other, in milliseconds.
inits() {
    set -e
    for round in 1 2 3 4 5; do
        for transport in wiglaf tcp; do
            wiglaf run --transport $transport -n 2 -- ./init.openmpi >> init.$transport
        done
    done
    for transport in wiglaf tcp; do
        echo "$transport $(sort -n init.$transport | sed -n 3p) ms of $(sort -n init.$transport | tr '\n' ' ')"
    done
}
export -f inits
LIMIT=180 check "MPI_Init, Wiglaf and TCP" bash -c inits
check "MPICH of Debian: over TCP" \
    expect-ranks "on node" 2 wiglaf run --mpi mpich=/usr --transport tcp -n 2 -- ./hello.mpich
library=$(ldconfig -p | sed -n 's/.*libfabric.so.1 .*=> //p' | head -n 1)
check "libfabric in LD_PRELOAD" env LD_PRELOAD="$library" \
    expect-ranks "on node" 2 wiglaf run -n 2 -- ./hello.openmpi

files() {
    set -e
    head -c 3000000 /dev/urandom > sent
    wiglaf cp sent node1:/scratch/copy
    mkdir -p mounted
    wiglaf mount --background node1:/scratch mounted
    cmp sent mounted/copy
    cp sent mounted/back
    wiglaf umount mounted
    wiglaf cp node1:/scratch/back got
    cmp sent got
}
export -f files
check "cp and mount" bash -c files

cp hello.openmpi /home/ann/work
check "an ordinary user's job" expect-ranks "on node" 2 \
    su ann -c 'cd /home/ann/work && wiglaf run -n 2 -- ./hello.openmpi'
check "root's job as that user" expect-ranks "on node" 2 \
    sh -c 'cd /home/ann/work && wiglaf run --user ann -n 2 -- ./hello.openmpi'
check "down" wiglaf down

if [ "$ROUNDS" = long ]; then
    LIMIT=900 check "demo" wiglaf demo --repeats 1
fi
