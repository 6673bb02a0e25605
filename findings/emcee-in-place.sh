#!/usr/bin/env bash
# What: EnsembleSampler of emcee whose function for the probability changes its argument; PyPI emcee 3.1.6, numpy 2.4.6.
# Guess: the walkers are not changed by it: the function is called for a number only, and with a pool it has a copy.
# Happens: without a pool it gets a row of emcee's own array. What the function writes there is what the chain stores. The
#   numbers are wrong with no error; only the fraction of accepted steps is small. With a pool of processes they are right.
# Who meets it: a function with `p -= centre`, or `p[1] = 10**p[1]` for a parameter that is sampled as a logarithm. Most
#   will test it without a pool on a PC, and with MPIPool on a cluster: two posteriors.
# Instead: `p = p - centre`, or p = p.copy() as the first line.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore OMP_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install emcee==3.1.6 numpy==2.4.6
cat >program.py <<'P'
import multiprocessing, emcee, numpy as np
CENTRE = np.array([3.0, 1.0])
def makes_new(p):
    p = p - CENTRE
    return -0.5 * np.sum(p**2)
def in_place(p):
    p -= CENTRE
    return -0.5 * np.sum(p**2)
def show(name, function, pool=None):
    np.random.seed(1)
    start = CENTRE + 0.1 * np.random.default_rng(0).normal(size=(16, 2))
    sampler = emcee.EnsembleSampler(16, 2, function, pool=pool)
    sampler.run_mcmc(start, 1000)
    mean = sampler.get_chain(flat=True, discard=100).mean(0)
    near = bool(np.all(abs(mean - CENTRE) < 0.2))
    print(f"{name}: the mean is {'near 3 and 1' if near else 'elsewhere'},", end=" ")
    print("more" if sampler.acceptance_fraction.mean() > 0.2 else "less", "than a fifth of the steps accepted")
if __name__ == "__main__":
    show("p = p - centre", makes_new)
    show("p -= centre", in_place)
    with multiprocessing.Pool(2) as pool:
        show("p -= centre, with a pool", in_place, pool)
P
v/bin/python program.py | tee out
diff - out <<'P'
p = p - centre: the mean is near 3 and 1, more than a fifth of the steps accepted
p -= centre: the mean is elsewhere, less than a fifth of the steps accepted
p -= centre, with a pool: the mean is near 3 and 1, more than a fifth of the steps accepted
P
echo "as observed: what the function for the probability writes to its argument is in the chain, unless there is a pool"
