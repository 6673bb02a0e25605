#!/usr/bin/env bash
# What: scatter, gather and @parallel of ipyparallel with a masked array; PyPI ipyparallel 9.2.0, numpy 2.3.5.
# Guess: gather of what scatter has distributed is the array of before, as for lists, texts and arrays.
# Happens: the parts have their masks on the engines, and sums there are right. gather, and the result of a function
#   with @view.parallel, join the parts without the mask: missing values are numbers again, and a mean is another one.
#   The result is still called a masked array. map and @view.remote keep the mask.
# Who meets it: fields of netCDF4, which reads missing values as masked: what is under the mask are numbers such as
#   -9999, or, after a multiplication, plausible ones (2).
# Instead: np.ma.concatenate(view["x"]), or fill with NaN before scatter.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T IPYTHONDIR=$T/ipython
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install ipyparallel==9.2.0 numpy==2.3.5
cat >program.py <<'P'
import numpy as np, ipyparallel as ipp
field = np.ma.masked_equal(np.array([1.0, -9999, 3, 4, -9999, 8]), -9999)
with ipp.Cluster(n=2, log_level=40) as cluster:
    cluster.wait_for_engines(2)
    view = cluster[:]
    view.block = True
    print("before:", field, "mean", field.mean())
    view.scatter("x", field)
    print("on the engines:", *view["x"])
    print("sums there:", *view.apply_sync(lambda: float(x.sum())))
    y = view.gather("x")
    print("gather:", type(y).__name__, y, "mean", y.mean())
    y = view.parallel(block=True)(lambda part: 2 * part)(field)
    print("parallel, twice:", y)
    print("map:", *view.map_sync(lambda value: value, field))
    print("concatenate:", np.ma.concatenate(view["x"]))
P
PATH="$T/v/bin:$PATH" v/bin/python program.py 2>words | tee out || { cat words; exit 1; }
diff - out <<'P'
before: [1.0 -- 3.0 4.0 -- 8.0] mean 4.0
on the engines: [1.0 -- 3.0] [4.0 -- 8.0]
sums there: 4.0 12.0
gather: MaskedArray [ 1.000e+00 -9.999e+03  3.000e+00  4.000e+00 -9.999e+03  8.000e+00] mean -3330.3333333333335
parallel, twice: [ 2.  2.  6.  8.  2. 16.]
map: 1.0 -- 3.0 4.0 -- 8.0
concatenate: [1.0 -- 3.0 4.0 -- 8.0]
P
echo "as observed: gather of a masked array has no mask"
