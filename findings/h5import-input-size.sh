#!/usr/bin/env bash
# What: h5import of text into numbers of 64 bits; Debian hdf5-tools 1.10.8+repack1-1.
# Guess: OUTPUT-SIZE 64 (and OUTPUT-CLASS) say what the numbers become. Text has no size, so the keyword INPUT-SIZE is
#   not needed; its help says that all of eight keywords are required, and an absent one would be an error.
# Happens: without INPUT-SIZE the text is read as 32 bits, and then widened: a double has 7 digits (0.1 is
#   0.10000000149) and 1e300 is infinite; an integer of 5000000000 is 705032704. The status is 0 and nothing is said.
#   The file has the type that was asked for, and h5dump's 6 digits show 0.1. OUTPUT-SIZE and INPUT-BYTE-ORDER, which
#   are 'required' likewise, can be left out without harm.
# Who meets it: tables of text (coordinates, energies, particle ids, time stamps) that are made an HDF5 file for a code
#   that computes with doubles.
# Instead: `INPUT-SIZE 64` also for text, or Python.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q hdf5-tools=1.10.8+repack1-1 libhdf5-103-1=1.10.8+repack1-1 libhdf5-hl-100=1.10.8+repack1-1 \
    libaec0 libsz2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
import() { # name, text, class of the text, class of the numbers, lines of the configuration that are more
    printf '%s\n' "$2" >text
    printf '%s\n' "PATH data" "INPUT-CLASS $3" "RANK 1" "DIMENSION-SIZES $(wc -w <text)" "OUTPUT-CLASS $4" \
        "${@:5}" >configuration
    rm -f file.h5; status=0
    usr/bin/h5import text -c configuration -o file.h5 >words 2>&1 || status=$?
    echo "$1: status $status, $(wc -c <words) bytes of messages"
    [ $status = 0 ] || return 0
    usr/bin/h5dump -H file.h5 | awk '/DATATYPE/{print "  "$2}'
    usr/bin/h5dump -m %.10g -y -w 200 file.h5 | sed -n '/ DATA {/,/}/p' | sed '1d;$d;s/^ */  /'
}
usr/bin/h5dump --version | awk '{print "HDF5", $NF}'
{
    floats='0.1 16777217 1e300' integers='7 5000000000 -5000000000'
    import floats "$floats" TEXTFP FP 'OUTPUT-SIZE 64'
    import 'floats, INPUT-SIZE 64' "$floats" TEXTFP FP 'OUTPUT-SIZE 64' 'INPUT-SIZE 64'
    import integers "$integers" TEXTIN IN 'OUTPUT-SIZE 64'
    import 'integers, INPUT-SIZE 64' "$integers" TEXTIN IN 'OUTPUT-SIZE 64' 'INPUT-SIZE 64'
    import 'without OUTPUT-SIZE' "$floats" TEXTFP FP 'INPUT-SIZE 64'
} | tee out
diff - out <<'P'
floats: status 0, 0 bytes of messages
  H5T_IEEE_F64LE
  0.1000000015, 16777216, inf
floats, INPUT-SIZE 64: status 0, 0 bytes of messages
  H5T_IEEE_F64LE
  0.1, 16777217, 1e+300
integers: status 0, 0 bytes of messages
  H5T_STD_I64LE
  7, 705032704, -705032704
integers, INPUT-SIZE 64: status 0, 0 bytes of messages
  H5T_STD_I64LE
  7, 5000000000, -5000000000
without OUTPUT-SIZE: status 0, 0 bytes of messages
  H5T_IEEE_F64LE
  0.1, 16777217, 1e+300
P
echo "as observed: h5import reads text as numbers of 32 bits unless INPUT-SIZE is given"
