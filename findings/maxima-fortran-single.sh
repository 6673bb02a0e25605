#!/usr/bin/env bash
# What: numbers in what Maxima's fortran() and f90() print, in a program with real(8); Debian maxima and maxima-share 5.46.0-11.
# Guess: all digits that are printed count: float(%pi) is 3.141592653589793E+0, with 16 digits, as Maxima computes. The manual
#   says nothing of a precision, and its own floats are double.
# Happens: each number has the exponent letter E, which is single precision in Fortran, whatever the variables are: the compiler
#   takes 3.14159274 for pi, and 2/3 and the exponent of x^(2/3) are 0.66666669. Results have 7 digits, and nothing is said.
# Who meets it: who derives a formula in Maxima and pastes it into a solver in double precision: a test with a tolerance of 1e-6
#   passes, and convergence stops at 1e-8.
# Instead: `with_stdout("formula.f90", f90(y=...))$`, then `sed -E 's/([0-9.])E([+-]?[0-9])/\1D\2/g'`, or gfortran's
#   -fdefault-real-8; numbers that are whole are exact in single precision, too.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install maxima=5.46.0-11 maxima-share=5.46.0-11 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/maxima" ] || { root=$T; export MAXIMA_PREFIX=$T/usr; }
export HOME=$T LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
cat >formula.mac <<'P'
load("f90")$
with_stdout("lines.f90", f90('a = float(%pi)*x, 'b = x^(2/3), 'c = x/3, 'd = 2/3, 'e = float(exp(1))))$
with_stdout("lines.f", fortran('a = float(%pi)*x))$
print(float(%pi*3), float(3^(2/3)), float(3/3), float(2/3), float(exp(1)))$
P
"$root/usr/bin/maxima" --very-quiet -b formula.mac >words 2>&1
cat >program.f90 <<'P'
program formula
    real(8) :: x = 3, a, b, c, d, e
    include 'lines.f90'
    print '(5f13.9)', a, b, c, d, e
end
P
{
    echo "f90:"; cat lines.f90
    echo "fortran:"; cat lines.f
    echo "Maxima:"; grep -E '^[ 0-9.]+$' words | awk '{for (i = 1; i <= NF; i++) printf "%13.9f", $i; print ""}'
    gfortran -Wall program.f90 -o program && echo "compiled:" && ./program
    sed -E -i.old 's/([0-9.])E([+-]?[0-9])/\1D\2/g' lines.f90
    gfortran program.f90 -o program && echo "with D for E:" && ./program
} 2>&1 | tee out
diff - out <<'P'
f90:
a = 3.141592653589793E+0*x
b = x**(2.0E+0/3.0E+0)
c = x/3.0E+0
d = 2.0E+0/3.0E+0
e = 2.718281828459045E+0
fortran:
      a = 3.141592653589793E+0*x
Maxima:
  9.424777961  2.080083823  1.000000000  0.666666667  2.718281828
compiled:
  9.424778223  2.080083868  1.000000000  0.666666687  2.718281746
with D for E:
  9.424777961  2.080083823  1.000000000  0.666666667  2.718281828
P
echo "as observed: numbers of Maxima's fortran() and f90() are of single precision"
