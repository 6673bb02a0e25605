#!/usr/bin/env bash
# What: `f90nml -g GROUP -v NAME=VALUE FILE` with a file's name, a path or a date; PyPI f90nml 1.5.0.
# Guess: a text: 'Strings act as a fallback type. If a value cannot be matched to any other value, then it is interpreted as a
#   string', and the guide's own example is date='19960101', whose quotation marks the shell takes away.
# Happens: VALUE is read as a piece of a namelist. `input=run1.nc` is the two texts run1 and .nc, a path ends before its first
#   slash (/scratch/run1 is nothing, data/run1 is data), and 2024-01-02 is the numbers 202.4 and -2, Fortran's 2024E-01. The
#   status is 0, and Fortran, too, reads 'run1', or '' as what it had before.
# Who meets it: job scripts and arrays that set the input or the folder of each run: the runs share one folder, or have the
#   default's.
# Instead: quotation marks for both, `-v "input='data/run1.nc'"`, also for text that looks like a number or is t or f.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install f90nml==1.5.0
printf "&run\n    text = 'old'\n/\n" >old.nml
cat >reader.f90 <<'P'
program reader
    character(20) :: text = 'default'
    integer :: status
    namelist /run/ text
    open (1, file='new.nml')
    read (1, run, iostat=status)
    print '(3a,l2)', '    Fortran: ', trim(text), ', error', status > 0
end
P
gfortran reader.f90 -o reader
{
    for value in out_1 run1.nc data/run1 /scratch/run1 ../run1 2024-01-02 t "'data/run1.nc'"; do
        status=0; v/bin/f90nml -g run -v "text=$value" old.nml new.nml >words 2>&1 || status=$?
        echo "-v text=$value: status $status, $(sed -n 's/^ *text =/text =/p' new.nml)"
        case $value in *[/.]*) ./reader ;; esac
    done
} | tee out
diff - out <<'P'
-v text=out_1: status 0, text = 'out_1'
-v text=run1.nc: status 0, text = 'run1', '.nc'
    Fortran: run1, error F
-v text=data/run1: status 0, text = 'data'
    Fortran: data, error F
-v text=/scratch/run1: status 0, text = ,
    Fortran: default, error F
-v text=../run1: status 0, text = '.', '.'
    Fortran: ., error F
-v text=2024-01-02: status 0, text = 202.4, -2
-v text=t: status 0, text = .true.
-v text='data/run1.nc': status 0, text = 'data/run1.nc'
    Fortran: data/run1.nc, error F
P
echo "as observed: f90nml reads text on the command line as Fortran"
