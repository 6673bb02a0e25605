#!/usr/bin/env bash
# What: filters and chunks that h5repack cannot apply; Debian hdf5-tools 1.10.8+repack1-1.
# Guess: an error. A filter's parameters have a flag for just that: '1 is OPTIONAL or 0 is MANDATORY'.
# Happens: the dataset is copied as it was, with status 0 and without a word: where a mandatory filter is not
#   installed, and where the chunk is larger than the dataset or has another rank; the compression asked for with it
#   is then left out as well. Only with -v is there 'warning: could not create dataset ... Applying original settings'.
# Who meets it: scripts that compress results before they delete the originals, with a plugin (Zstd, bitshuffle) that
#   the node does not have, or one chunk shape for fields of several sizes: nothing is compressed.
# Instead: -v, and a look for 'Applying original settings'; or `h5ls -v FILE | grep Filter` afterwards.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install hdf5-tools=1.10.8+repack1-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
h5repack --version
seq 0 19 >numbers
printf "%s\n" "PATH field" "INPUT-CLASS TEXTIN" "RANK 2" "DIMENSION-SIZES 4 5" >layout
h5import numbers -c layout -o in.h5
{
    for options in "-f field:GZIP=5" "-f field:UD=32015,0,1,5" "-l field:CHUNK=100x100 -f field:GZIP=5" \
        "-l field:CHUNK=4 -f field:GZIP=5"; do
        rm -f out.h5; result=0
        # shellcheck disable=SC2086
        h5repack $options in.h5 out.h5 >words 2>&1 || result=$?
        found=$(h5ls -v out.h5/field | grep -oE 'Chunks:.*}|deflate' | xargs || true)
        # shellcheck disable=SC2086
        warnings=$(h5repack -v $options in.h5 verbose.h5 2>&1 | grep -c 'Applying original settings' || true)
        echo "$options: ${found:-no chunks, no filter}, status $result, words $(wc -l <words)," \
            "with -v $warnings warning(s)"
    done
} | tee out
diff - out <<'P'
-f field:GZIP=5: Chunks: {4, 5} deflate, status 0, words 0, with -v 0 warning(s)
-f field:UD=32015,0,1,5: no chunks, no filter, status 0, words 0, with -v 1 warning(s)
-l field:CHUNK=100x100 -f field:GZIP=5: no chunks, no filter, status 0, words 0, with -v 1 warning(s)
-l field:CHUNK=4 -f field:GZIP=5: no chunks, no filter, status 0, words 0, with -v 1 warning(s)
P
echo "as observed: h5repack leaves out what it cannot apply, with status 0"
