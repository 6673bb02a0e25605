/* The molecule, from an NWChem input file: that the other program computes the
 * same needs no second description of it. */
#ifndef MOLECULE_H
#define MOLECULE_H

enum { ATOMS_MAX = 64, SETNAME_MAX = 64 };

struct atom {
    char symbol[3];
    int charge;
    double at[3]; /* in bohr */
};

struct molecule {
    int atoms;
    struct atom atom[ATOMS_MAX];
    char basis[SETNAME_MAX]; /* as NWChem's library names it */
    int is_spherical;        /* d functions: five, not six */
};

/* Reads the blocks `geometry` and `basis`. What stands there but is not
 * understood ends the job; other blocks are NWChem's own business. */
void molecule_read(const char *path, struct molecule *molecule);

int molecule_electrons(const struct molecule *molecule);

/* Repulsion of the nuclei, in hartree. */
double molecule_repulsion(const struct molecule *molecule);

#endif
