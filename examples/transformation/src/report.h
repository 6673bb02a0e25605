/* What the job found and how long each phase took in each rank. */
#ifndef REPORT_H
#define REPORT_H

#include "mp2.h"

enum phase { INTEGRALS, SCF, SORT_1, HALF_1, SORT_2, HALF_2, MP2, PHASES };

/* A phase begins when all ranks are there. Its wall and CPU seconds are those
 * until this rank has done its part; then it waits for the others. */
void phase_begin(void);
void phase_end(enum phase phase);

/* Collects from all ranks and prints on rank 0's standard output. */
void report(const struct molecule *molecule, const struct transformation *t, double correlation);

#endif
