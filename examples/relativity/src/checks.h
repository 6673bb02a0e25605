/* Whether the program is right, by answers that are known. */
#ifndef CHECKS_H
#define CHECKS_H

/* Says each check's outcome on rank 0; how many failed. */
int run_checks(void);

#endif
