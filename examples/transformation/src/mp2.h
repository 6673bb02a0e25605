/* Second-order perturbation theory after Moller and Plesset. */
#ifndef MP2_H
#define MP2_H

#include "transform.h"

/* The correlation energy of all electrons, in hartree, after half_second; the
 * same in all ranks. Each sums over its own ia; the files of others are read
 * where the virtual orbitals of an i are divided between ranks. */
double mp2(const struct transformation *t);

#endif
