/* Contracted Gaussian functions as libcint wants them, read at run time from
 * the basis-set library that NWChem has installed. */
#ifndef BASIS_H
#define BASIS_H

#include "molecule.h"

struct basis {
    int *atm, *bas; /* libcint's tables, see its cint.h */
    double *env;
    int atoms, shells;
    int env_used, env_room;
    int is_spherical;
    int functions;    /* contracted ones, of all shells */
    int *first;       /* of each shell's functions; one more entry than shells */
    int largest;      /* functions of the largest shell */
};

/* Ends the job when the library lacks the set or an element of it. */
void basis_read(const struct molecule *molecule, const char *library, struct basis *basis);
void basis_free(struct basis *basis);

#endif
