/* Whether the program is right, by answers that are known. */
#ifndef CHECKS_H
#define CHECKS_H

#include "lattice.h"

/* Says each check's outcome on rank 0; how many failed. */
int run_checks(const int whole[DIMS], double mass, unsigned long seed);

#endif
