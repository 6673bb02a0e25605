#!/usr/bin/env bash
# What: KINSol where the function is NaN at the initial guess; Debian libsundials-kinsol6 6.4.1+dfsg1-3.
# Guess: an error, because nothing was solved; CVode returns one where the right-hand side is NaN.
# Happens: KIN_INITIAL_GUESS_OK (1), 'the guess satisfied the stopping criterion', without a step: NaN is not larger than the
#   tolerance. The 'solution' is the guess. Programs that check `status < 0`, as in SUNDIALS' examples, go on with it.
# Who meets it: a steady state or an implicit step whose function has a root or a logarithm, and a guess outside its domain.
# Instead: a positive return value of the function where its result is not finite: KINSol returns KIN_FIRST_SYSFUNC_ERR.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
version=6.4.1+dfsg1-3
apt-get download -q libsundials-dev=$version libsundials-kinsol6=$version libsundials-nvecserial6=$version \
    libsundials-sunlinsol3=$version libsundials-sunmatrix4=$version >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
# Debian's headers ask for mpi.h, though nothing of it is used here
mkdir stub; echo 'typedef struct c *MPI_Comm; typedef struct d *MPI_Datatype;' >stub/mpi.h
cat >program.c <<'P'
#include <kinsol/kinsol.h>
#include <math.h>
#include <nvector/nvector_serial.h>
#include <stdio.h>
#include <sunlinsol/sunlinsol_dense.h>
#include <sunmatrix/sunmatrix_dense.h>
static int check;
static int function(N_Vector x, N_Vector f, void *nothing) {    /* log(x) + 1: the root is 0.368 */
    (void)nothing;
    NV_Ith_S(f, 0) = log(NV_Ith_S(x, 0)) + 1;
    return check && !isfinite(NV_Ith_S(f, 0));
}
static void quiet(int a, const char *b, const char *c, char *d, void *e) { (void)a; (void)b; (void)c; (void)d; (void)e; }
int main(void) {
    double guesses[] = {0.3, -0.3};
    SUNContext context;
    SUNContext_Create(NULL, &context);
    for (check = 0; check < 2; check++)
        for (int i = 0; i < 4; i++) {
            N_Vector x = N_VNew_Serial(1, context), one = N_VNew_Serial(1, context);
            SUNMatrix matrix = SUNDenseMatrix(1, 1, context);
            void *kinsol = KINCreate(context);
            N_VConst(guesses[i / 2], x); N_VConst(1, one);
            KINSetErrHandlerFn(kinsol, quiet, NULL);
            KINInit(kinsol, function, x);
            KINSetLinearSolver(kinsol, SUNLinSol_Dense(x, matrix, context), matrix);
            int status = KINSol(kinsol, x, i % 2 ? KIN_LINESEARCH : KIN_NONE, one, one);
            char *name = KINGetReturnFlagName(status);
            printf("%sguess %g%s: %s (%d), x %.3f\n", check ? "checked, " : "", guesses[i / 2], i % 2 ? ", line search" : "",
                   name, status, NV_Ith_S(x, 0));
        }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Istub -Iusr/include program.c -o program -L$libraries -lsundials_kinsol -lsundials_nvecserial -lsundials_sunlinsoldense \
    -lsundials_sunmatrixdense -lm -Wl,--allow-shlib-undefined
LD_LIBRARY_PATH=$libraries ./program | tee out
diff - out <<'P'
guess 0.3: KIN_SUCCESS (0), x 0.368
guess 0.3, line search: KIN_SUCCESS (0), x 0.368
guess -0.3: KIN_INITIAL_GUESS_OK (1), x -0.300
guess -0.3, line search: KIN_INITIAL_GUESS_OK (1), x -0.300
checked, guess 0.3: KIN_SUCCESS (0), x 0.368
checked, guess 0.3, line search: KIN_SUCCESS (0), x 0.368
checked, guess -0.3: NONE (-14), x -0.300
checked, guess -0.3, line search: NONE (-14), x -0.300
P
echo "as observed: for KINSOL a guess whose function is NaN is a solution"
