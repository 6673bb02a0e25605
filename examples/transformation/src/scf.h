/* Restricted Hartree-Fock, from the two-electron integrals in the ranks' files. */
#ifndef SCF_H
#define SCF_H

#include <stdint.h>

#include "basis.h"

struct orbitals {
    int functions, occupied, virtuals; /* virtuals: those that are kept, not more */
    double *coefficients; /* a row for each orbital, occupied ones first */
    double *energies;     /* in hartree */
    double scf_energy;    /* in hartree, with the nuclei's repulsion */
    int iterations;
};

/* Every rank calls it after integrals_write; all get the same orbitals. Each
 * iteration reads this rank's own file, which is local. */
void scf(const struct molecule *molecule, struct basis *basis, int64_t integrals,
         struct orbitals *orbitals);
void orbitals_free(struct orbitals *orbitals);

#endif
