#!/usr/bin/env bash
# What: the command `gmsh` of PyPI's gmsh 4.15.2 after an error, beside that of Debian's gmsh 4.8.4+ds2-3.
# Guess: an error ends it with a status that is not 0: Debian's gmsh has 1.
# Happens: the status is 0 whatever happens: an input that is not there, a geometry whose lines failed, an option it does
#   not know, an output that cannot be written. Except for the last, a mesh is written: an empty one, one of what was
#   left of the geometry, or one not partitioned. 'Error' is on standard output and error, for those who read it.
# Who meets it: job scripts that make and partition a mesh, then start the solver with `set -e` or `&&`; Makefiles and
#   Snakemake, for which the file is there and the status right.
# Instead: `grep -q '^Error'` of the output; or the Python module, whose functions raise exceptions.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
packages=$(apt-get -s --no-install-recommends install gmsh=4.8.4+ds2-3 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
debian=/usr/bin/gmsh; [ ! -x "$T/usr/bin/gmsh" ] || debian=$T/usr/bin/gmsh
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install gmsh==4.15.2
cat >box.geo <<'E'
SetFactory("OpenCASCADE");
Box(1) = {0, 0, 0, 1, 1, 1};
E
cat >fillet.geo <<'E'
SetFactory("OpenCASCADE");
Box(1) = {0, 0, 0, 1, 1, 1};
Fillet{7}{1}{0.1};
E
for gmsh in "$debian" "v/bin/python v/bin/gmsh"; do
    echo "gmsh $($gmsh -version 2>&1 | tail -1)"
    for arguments in 'box.geo -o mesh.msh' 'nosuch.geo -o mesh.msh' 'fillet.geo -o mesh.msh' 'box.geo -o nosuch/mesh.msh' \
        'box.geo -o mesh.msh -partt 4' 'box.geo -o mesh.msh -algo nosuch'; do
        rm -f mesh.msh; status=0
        # shellcheck disable=SC2086
        $gmsh -3 $arguments >words 2>&1 || status=$?
        mesh='no mesh'; [ ! -f mesh.msh ] || { mesh='a mesh'; [ "$(wc -c <mesh.msh)" -gt 100 ] || mesh='an empty mesh'; }
        echo " -3 $arguments: status $status, $mesh"
    done
done | tee out
diff - out <<'E'
gmsh 4.8.4
 -3 box.geo -o mesh.msh: status 0, a mesh
 -3 nosuch.geo -o mesh.msh: status 1, an empty mesh
 -3 fillet.geo -o mesh.msh: status 1, a mesh
 -3 box.geo -o nosuch/mesh.msh: status 1, no mesh
 -3 box.geo -o mesh.msh -partt 4: status 1, no mesh
 -3 box.geo -o mesh.msh -algo nosuch: status 1, no mesh
gmsh 4.15.2
 -3 box.geo -o mesh.msh: status 0, a mesh
 -3 nosuch.geo -o mesh.msh: status 0, an empty mesh
 -3 fillet.geo -o mesh.msh: status 0, a mesh
 -3 box.geo -o nosuch/mesh.msh: status 0, no mesh
 -3 box.geo -o mesh.msh -partt 4: status 0, a mesh
 -3 box.geo -o mesh.msh -algo nosuch: status 0, a mesh
E
echo "as observed: the gmsh of PyPI exits with 0 after errors"
