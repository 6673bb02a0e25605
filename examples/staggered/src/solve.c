#include "solve.h"

#include <math.h>
#include <stdlib.h>

double norm2(const struct lattice *l, const vector *v)
{
    double sum = 0;
    for (int i = 0; i < l->sites; i++)
        sum += dot(&v[i], &v[i]);
    return sum_over_ranks(l, sum);
}

/* to = one + factor * two, on sites from `first` to before `end`. */
static void combine(vector *to, const vector *one, double factor, const vector *two, int first,
                    int end)
{
#pragma omp parallel for
    for (int i = first; i < end; i++)
        for (int c = 0; c < 3; c++) {
            to[i].c[c].re = one[i].c[c].re + factor * two[i].c[c].re;
            to[i].c[c].im = one[i].c[c].im + factor * two[i].c[c].im;
        }
}

/* y = (4 m^2 - D D) p on even sites, with D p on the odd ones in `middle`; the product p y of this rank. */
static double apply(const struct lattice *l, vector *y, vector *p, vector *middle, double mass)
{
    derivative(l, middle, p, ODD);
    derivative(l, y, middle, EVEN);
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < l->half; i++) {
        for (int c = 0; c < 3; c++) {
            y[i].c[c].re = 4 * mass * mass * p[i].c[c].re - y[i].c[c].re;
            y[i].c[c].im = 4 * mass * mass * p[i].c[c].im - y[i].c[c].im;
        }
        sum += dot(&p[i], &y[i]);
    }
    return sum;
}

/* x += a p, r -= a y on even sites; the square of r of this rank. */
static double step(const struct lattice *l, vector *x, vector *r, double a, const vector *p,
                   const vector *y)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < l->half; i++) {
        for (int c = 0; c < 3; c++) {
            x[i].c[c].re += a * p[i].c[c].re;
            x[i].c[c].im += a * p[i].c[c].im;
            r[i].c[c].re -= a * y[i].c[c].re;
            r[i].c[c].im -= a * y[i].c[c].im;
        }
        sum += dot(&r[i], &r[i]);
    }
    return sum;
}

/* M^+ M = 4 m^2 - D D does not mix even and odd sites, because D leads from one to the other. So
 * (4 m^2 - D D) x_e = (M^+ b)_e = 2m b_e - (D b_o)_e, and x_o = (b_o - (D x_e)_o) / 2m. */
struct effort solve(const struct lattice *l, vector *x, vector *b, double mass, struct limit limit)
{
    vector *r = field_new(l), *p = field_new(l), *y = field_new(l), *middle = field_new(l);
    derivative(l, r, b, EVEN);
    double mine = 0;
    for (int i = 0; i < l->half; i++) {
        x[i] = (vector){0};
        for (int c = 0; c < 3; c++) {
            r[i].c[c].re = 2 * mass * b[i].c[c].re - r[i].c[c].re;
            r[i].c[c].im = 2 * mass * b[i].c[c].im - r[i].c[c].im;
        }
        p[i] = r[i];
        mine += dot(&r[i], &r[i]);
    }
    MPI_Barrier(l->comm);
    struct effort effort = {0, -MPI_Wtime()};
    double square = sum_over_ranks(l, mine);
    double end = limit.residual * limit.residual * square;
    while (effort.iterations < limit.iterations && square > end) {
        double a = square / sum_over_ranks(l, apply(l, y, p, middle, mass));
        double next = sum_over_ranks(l, step(l, x, r, a, p, y));
        combine(p, r, next / square, p, 0, l->half);
        square = next;
        effort.iterations++;
    }
    effort.seconds += MPI_Wtime();

    derivative(l, x, x, ODD);
    for (int i = l->half; i < l->sites; i++)
        for (int c = 0; c < 3; c++) {
            x[i].c[c].re = (b[i].c[c].re - x[i].c[c].re) / (2 * mass);
            x[i].c[c].im = (b[i].c[c].im - x[i].c[c].im) / (2 * mass);
        }
    free(r);
    free(p);
    free(y);
    free(middle);
    return effort;
}

double true_residual(const struct lattice *l, vector *x, const vector *b, double mass)
{
    vector *r = field_new(l);
    derivative(l, r, x, EVEN);
    derivative(l, r, x, ODD);
    combine(r, r, 2 * mass, x, 0, l->sites);
    combine(r, b, -1, r, 0, l->sites);
    double residual = sqrt(norm2(l, r) / norm2(l, b));
    free(r);
    return residual;
}
