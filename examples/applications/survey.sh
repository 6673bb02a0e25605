#!/usr/bin/env bash
# Small runs of programs that Debian packages for MPI, over TCP and over Wiglaf: do they run, and is the result the same? As root, with
# an emulated cluster:
#   wiglaf up --nodes 2 && examples/applications/survey.sh survey
# Arguments: a new folder for inputs and outputs, and a pattern for those programs alone whose names match it. A program whose package
# is missing is left out, with its name; apt-get install --no-install-recommends elk-lapw mpqc mumps-test abyss ray mpb-mpi
# meep-openmpi openfoam openfoam-examples gpaw python3-petsc4py-real freefem++ abinit nwchem-mpich libcoarrays-openmpi-dev
# gfortran brings all.
set -euo pipefail
out=${1-survey} only=${2-.}
here=$(cd "$(dirname "$0")" && pwd)
wiglaf=${WIGLAF-wiglaf}
mkdir "$out"
cd "$out"
top=$PWD failed=0

# one NAME PACKAGE RANKS RESULT COMMAND...: in a copy of the folder in.NAME, over each transport. RESULT is a pattern for the lines that must
# be the same, or a file's name behind @. Options are for wiglaf run.
options=()
one() {
    local name=$1 package=$2 ranks=$3 result=$4 transport
    shift 4
    [[ $name =~ $only ]] || return 0
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || { echo "$name: $package is not installed"; return 0; }
    [ -d "in.$name" ] || mkdir "in.$name"
    for transport in tcp wiglaf; do
        cp -r "in.$name" "$name.$transport"
        if ! (cd "$name.$transport" && timeout -k 5 120 "$wiglaf" run "${options[@]}" --transport $transport -n "$ranks" -x OMP_NUM_THREADS=1 \
            -- "$@" >output 2>&1); then
            echo "$name: does not end well over $transport: $top/$name.$transport/output"
            failed=1
            return 0
        fi
        case $result in
            @*) cp "$name.$transport/${result#@}" "$name.$transport/result" ;;
            *) grep -E "$result" "$name.$transport/output" >"$name.$transport/result" || true ;;
        esac
    done
    if [ ! -s "$name.tcp/result" ]; then
        echo "$name: no result over TCP"
        failed=1
    elif cmp -s "$name.tcp/result" "$name.wiglaf/result"; then
        echo "$name: the same: $(tail -n 1 "$name.tcp/result" | sed 's/  */ /g; s/^ //' | cut -c 1-100)"
    else
        echo "$name: not the same: $(diff "$name.tcp/result" "$name.wiglaf/result" | sed -n 2,4p | tr '\n' ' ')"
        failed=1
    fi
}
input() { # NAME FILE: from standard input
    mkdir -p "in.$1"
    cat >"in.$1/$2"
}

# Chemistry and solids.
if [ -d /usr/share/elk-lapw/species ]; then
    sed "s,'../../../species/','/usr/share/elk-lapw/species/'," /usr/share/doc/elk-lapw/examples/basic/Al/elk.in | input elk elk.in
fi
one elk elk-lapw 2 @TOTENERGY.OUT elk-lapw
one mpqc mpqc 2 'MP2 energy' mpqc /usr/share/doc/mpqc/examples/mp2h2o.in
input gpaw h2.py <<'P'
from ase import Atoms
from gpaw import GPAW
from gpaw.mpi import world
molecule = Atoms("H2", positions=[(3, 3, 2.63), (3, 3, 3.37)], cell=(6, 6, 6))
molecule.calc = GPAW(mode="fd", h=0.25, txt="h2.txt")
energy = molecule.get_potential_energy()
if world.rank == 0:
    print(f"energy {energy:.7f}, {world.size} ranks")
P
one gpaw gpaw 2 '^energy' gpaw python h2.py
# The pseudopotential of Goedecker, Teter and Hutter (doi:10.1103/PhysRevB.54.1703) for hydrogen.
input abinit h.hgh <<'P'
hydrogen
1 1 960101 zatom, zion, pspdat
2 1 0 0 2001 0 pspcod, pspxc, lmax, lloc, mmax, r2well
0.2 -4.0663326 0.6778322 0 0 rloc, c1 to c4
0 0 0 rs, h1s, h2s
0 0 rp, h1p
P
input abinit h2.abi <<'P'
pp_dirpath "./"
pseudos "h.hgh"
acell 8 8 8
ntypat 1 znucl 1 natom 2 typat 1 1
xcart -0.7 0 0 0.7 0 0
ecut 15 kptopt 0 nkpt 1 nstep 12 toldfe 1.0d-8 diemac 2 nband 4
paral_kgb 1 npband 2 npfft 1
P
one abinit abinit 2 '^ +etotal ' abinit h2.abi

# Light.
input mpb bands.ctl <<'P'
(set! num-bands 4)
(set! k-points (interpolate 2 (list (vector3 0 0) (vector3 0.5 0) (vector3 0.5 0.5))))
(set! geometry-lattice (make lattice (size 1 1 no-size)))
(set! geometry (list (make cylinder (center 0 0) (radius 0.2) (height infinity) (material (make dielectric (epsilon 12))))))
(set! resolution 32)
(run-tm)
P
one mpb mpb-mpi 2 '^tmfreqs:' mpb-mpi bands.ctl
input meep guide.ctl <<'P'
(set! geometry-lattice (make lattice (size 8 4 no-size)))
(set! geometry (list (make block (center 0 0) (size infinity 1 infinity) (material (make dielectric (epsilon 12))))))
(set! sources (list (make source (src (make continuous-src (frequency 0.15))) (component Ez) (center -3 0))))
(set! pml-layers (list (make pml (thickness 1.0))))
(set! resolution 10)
(run-until 50 (at-end (lambda () (print "field: " (get-field-point Ez (vector3 2 0)) "\n"))))
P
one meep meep-openmpi 2 '^field' meep guide.ctl

# Equations.
for kind in d:real z:cmplx; do
    one "mumps-${kind%:*}" mumps-test 2 'Solution is' \
        sh -c "exec /usr/lib/mumps/${kind%:*}simpletest </usr/lib/mumps/input_simpletest_${kind#*:}"
done
input petsc solve.py <<'P'
from petsc4py import PETSc
count = 60000
matrix = PETSc.Mat().createAIJ([count, count], nnz=3)
for row in range(*matrix.getOwnershipRange()):
    matrix[row, row] = 2.1
    for column in (row - 1, row + 1):
        if 0 <= column < count:
            matrix[row, column] = -1
matrix.assemble()
right = matrix.createVecLeft()
right.set(1)
found = right.duplicate()
solver = PETSc.KSP().create()
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("bjacobi")
solver.setTolerances(rtol=1e-12)
solver.solve(right, found)
PETSc.Sys.Print(f"norm {found.norm():.8f}, {solver.getIterationNumber()} iterations")
P
# Debian keeps it where the variant of PETSc is.
one petsc python3-petsc4py-real 2 '^norm' \
    env PYTHONPATH="$(echo /usr/lib/petscdir/petsc*/*-real/lib/python3/dist-packages)" /usr/bin/python3 solve.py
input freefem poisson.edp <<'P'
mesh square40 = square(40, 40);
fespace V(square40, P2);
V u, v;
solve poisson(u, v) = int2d(square40)(dx(u) * dx(v) + dy(u) * dy(v)) - int2d(square40)((mpirank + 1) * v) + on(1, 2, 3, 4, u = 0);
real own = int2d(square40)(u), all = 0;
mpiAllReduce(own, all, mpiCommWorld, mpiSUM);
if (mpirank == 0) cout << "sum: " << all << " of " << mpisize << endl;
P
one freefem freefem++ 4 '^sum' FreeFem++-mpi -nw -ns poisson.edp
cavity=/usr/share/doc/openfoam-examples/examples/incompressible/icoFoam/cavity/cavity
if [[ openfoam =~ $only && -d $cavity ]]; then
    cp -r $cavity in.openfoam
    input openfoam/system decomposeParDict <<'P'
FoamFile { version 2.0; format ascii; class dictionary; object decomposeParDict; }
numberOfSubdomains 4;
method simple;
simpleCoeffs { n (2 2 1); delta 0.001; }
P
    # Debian's programs do not know where their own files are.
    (cd in.openfoam && export WM_PROJECT_DIR=/usr/share/openfoam && blockMesh >log.mesh && decomposePar >log.parts)
fi
one openfoam openfoam 4 'Final residual|cumulative' env WM_PROJECT_DIR=/usr/share/openfoam icoFoam -parallel

# Genes.
reads=/usr/share/doc/ray/test_data
for number in 1 2; do
    [ ! -e $reads/ecoli_1K_$number.fq.gz ] || zcat $reads/ecoli_1K_$number.fq.gz | input abyss $number.fq
done
[ -e in.abyss/1.fq ] || echo "abyss: the reads are in the package ray"
one abyss abyss 4 @contigs.fa /usr/lib/abyss/ABYSS-P -k25 1.fq 2.fq -o contigs.fa

# Fortran's own.
cat >coarrays.f90 <<'P'
program coarrays
  implicit none
  integer :: i, me, images
  integer :: counter[*], total[*]
  real(8) :: row(1000)[*], all
  me = this_image()
  images = num_images()
  row = me
  total = me
  counter = 0
  sync all
  all = 0
  do i = 1, images
    all = all + sum(row(:)[i])
  end do
  call co_sum(total)
  critical
    counter[1] = counter[1] + me
  end critical
  sync all
  row(1:1000:2)[mod(me, images) + 1] = -me
  sync all
  if (me == 1) print '(a, f9.1, 2i6, f9.1)', 'sums:', all, total, counter, sum(row)
end program
P
if gfortran -fcoarray=lib coarrays.f90 -o coarrays -lcaf_openmpi 2>log.coarrays; then
    one coarrays libcoarrays-openmpi-dev 4 '^sums' "$top/coarrays"
fi

# MPICH's binary interface, on an MPICH with libfabric.
options=(--mpi mpich)
cp "$here/nwchem/hcno.nw" .
one nwchem-mpich nwchem-mpich 2 'Total SCF energy' nwchem.mpich "$top/hcno.nw"
exit $failed
