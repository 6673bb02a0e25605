#!/usr/bin/env bash
# What: f90nml.patch, and `f90nml -p`, for values that are arrays; PyPI f90nml 1.5.0, with gfortran as the reader.
# Guess: the file with the new values, as f90nml.write of a namelist with them has it: patch is 'to modify a namelist but preserve
#   its comments and formatting'.
# Happens: the new values take the places of the old ones, word for word, and nothing is said:
#   - Of `n = 2*10`, ten twice, the 2 is taken for the value: n = 20 is written as `20*10`, and 3, 4 as `3*10`.
#   - An array that is longer than the old one is cut where it stands last in its group. Elsewhere its next value replaces the
#     name of the next variable, `5 = 5`: the Fortran program stops there, or goes on with its default if it does not look at
#     iostat.
#   - Of `n(1) = 1` and `n(2) = 2` on lines of their own the second name is replaced.
# Who meets it: studies that patch a template for each run: numbers of processes or levels per dimension, lists of times for output.
# Instead: f90nml.read, change the values and write them; or compare f90nml.read of the new file with what was wanted.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install f90nml==1.5.0
cat >reader.f90 <<'P'
program reader
    integer :: n(30) = 0, steps = 1, status
    namelist /run/ n, steps
    open (1, file='new.nml')
    read (1, run, iostat=status)
    print '(a,30i3)', '    Fortran: n =', pack(n, n /= 0)
    print '(a,i4,a,i0)', '    steps =', steps, ', error: ', merge(1, 0, status > 0)
end
P
gfortran reader.f90 -o reader
cat >program.py <<'P'
import sys, f90nml
print(f"{sys.argv[1]!r} with n = {eval(sys.argv[2])}")
open("old.nml", "w").write("&run\n" + sys.argv[1].replace("|", "\n") + "\n/\n")
f90nml.patch("old.nml", {"run": {"n": eval(sys.argv[2])}}, "new.nml")
print("    is", repr("|".join(open("new.nml").read().split("\n")[1:-2])))
P
show() { # old lines, new value
    rm -f new.nml; v/bin/python program.py "$1" "$2"; ./reader
}
{
    show 'n = 10, 10|steps = 5' '[3, 4]'
    show 'n = 2*10|steps = 5' '20'
    show 'steps = 5|n = 2*10' '[3, 4]'
    show 'steps = 5|n = 10' '[3, 4]'
    show 'n = 10, 10|steps = 5' '[3, 4, 5]'
    show 'n(1) = 1|n(2) = 2|steps = 5' '[3, 4]'
    printf '&run\nn = 2*10\n/\n' >old.nml
    echo "f90nml -p -v n=20: $(v/bin/f90nml -p -g run -v n=20 old.nml | sed -n 2p)"
} | tee out
diff - out <<'P'
'n = 10, 10|steps = 5' with n = [3, 4]
    is 'n = 3, 4|steps = 5'
    Fortran: n =  3  4
    steps =   5, error: 0
'n = 2*10|steps = 5' with n = 20
    is 'n = 20*10|steps = 5'
    Fortran: n = 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10
    steps =   5, error: 0
'steps = 5|n = 2*10' with n = [3, 4]
    is 'steps = 5|n = 3*10'
    Fortran: n = 10 10 10
    steps =   5, error: 0
'steps = 5|n = 10' with n = [3, 4]
    is 'steps = 5|n = 3'
    Fortran: n =  3
    steps =   5, error: 0
'n = 10, 10|steps = 5' with n = [3, 4, 5]
    is 'n = 3, 4|5 = 5'
    Fortran: n =  3  4  5
    steps =   1, error: 1
'n(1) = 1|n(2) = 2|steps = 5' with n = [3, 4]
    is 'n(1) = 3|4(2) = 2|steps = 5'
    Fortran: n =  3
    steps =   1, error: 1
f90nml -p -v n=20: n = 20*10
P
echo "as observed: f90nml.patch writes other arrays than those asked for"
