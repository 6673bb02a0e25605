#!/usr/bin/env bash
# What: blobs of emcee where some are integers, as of `max(0, x)`; PyPI emcee 3.1.6, numpy 2.4.6.
# Guess: get_blobs() has the numbers that the function returned.
# Happens: the half of the walkers that moves at once gets the type of its first one's blob. Where that is the integer 0,
#   the blobs of the others are cut to integers: 0.87 is 0. The array has float64, so nothing tells. (Where the very first
#   blob of a run is an integer, the whole array is of integers.)
# Who meets it: derived parameters with `max(0, x)`, or `return lp, 0` on one path and a float on another. The mean of a
#   positive parameter is too small, here by more than a fifth.
# Instead: blobs_dtype=[("name", float)], or float() around each blob.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore OMP_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install emcee==3.1.6 numpy==2.4.6
cat >program.py <<'P'
import emcee, numpy as np
def function(p): return -0.5 * np.sum(p**2), max(0, p[0])
def run(name, **options):
    np.random.seed(1)
    sampler = emcee.EnsembleSampler(8, 2, function, **options)
    sampler.run_mcmc(np.random.default_rng(0).normal(size=(8, 2)), 1000)
    blobs = sampler.get_blobs()
    if blobs.dtype.names: blobs = blobs["x"]
    x = sampler.get_chain()[:, :, 0]
    right = np.maximum(0, x)
    cut = (blobs != right) & (blobs == np.floor(right))
    ratio = blobs.mean() / right.mean()
    print(f"{name}: {blobs.dtype}, mean", "as of the chain," if abs(ratio - 1) < 1e-9 else "less than 0.8 of the chain's,"
          if ratio < 0.8 else "?", "all right" if np.array_equal(blobs, right) else
          "the wrong ones are cut" if np.all(cut | (blobs == right)) else "?")
run("without a type")
run("blobs_dtype", blobs_dtype=[("x", float)])
P
v/bin/python program.py | tee out
diff - out <<'P'
without a type: float64, mean less than 0.8 of the chain's, the wrong ones are cut
blobs_dtype: float64, mean as of the chain, all right
P
echo "as observed: an integer blob of the first walker cuts those of the others to integers"
