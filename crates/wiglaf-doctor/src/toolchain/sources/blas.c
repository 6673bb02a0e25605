/* Functions of BLAS by the type of their result, and a matrix product. */
#include <complex.h>
#include <stdio.h>
float sdot_(int *, float *, int *, float *, int *);
double ddot_(int *, double *, int *, double *, int *);
float complex cdotc_(int *, float complex *, int *, float complex *, int *);
double complex zdotc_(int *, double complex *, int *, double complex *, int *);
void dgemm_(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *, double *, double *, int *, long, long);
static int wrong(const char *what) { return printf("wrong: %s\n", what), 0; }
int main(void) {
    int one = 1, two = 2;
    float s[2] = {1, 2}, t[2] = {3, 4};
    double a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4] = {-1, -1, -1, -1}, unit = 1, nil = 0;
    float complex p[2] = {1 + 2 * I, 3 - I}, q[2] = {3 - I, 1 + 2 * I};
    double complex x[2] = {1 + 2 * I, 3 - I}, y[2] = {3 - I, 1 + 2 * I};
    if (sdot_(&two, s, &one, t, &one) != 11) return wrong("sdot");
    if (ddot_(&two, a, &one, b, &one) != 17) return wrong("ddot");
    if (cdotc_(&two, p, &one, q, &one) != 2) return wrong("cdotc");
    if (zdotc_(&two, x, &one, y, &one) != 2) return wrong("zdotc");
    dgemm_("N", "N", &two, &two, &two, &unit, a, &two, b, &two, &nil, c, &two, 1, 1);
    if (c[0] != 23 || c[1] != 34 || c[2] != 31 || c[3] != 46) return wrong("dgemm");
    return puts("ok") < 0;
}
