/* Vectors of three colours, and the matrices of SU(3) that turn them. */
#ifndef SU3_H
#define SU3_H

typedef struct { double re, im; } complex_t;
typedef struct { complex_t c[3]; } vector;
typedef struct { complex_t e[3][3]; } matrix;

/* sum += factor * u v. 66 operations for the product, 6 for the sum. */
static inline void add_product(vector *sum, double factor, const matrix *u, const vector *v)
{
    for (int i = 0; i < 3; i++) {
        double re = 0, im = 0;
        for (int j = 0; j < 3; j++) {
            re += u->e[i][j].re * v->c[j].re - u->e[i][j].im * v->c[j].im;
            im += u->e[i][j].re * v->c[j].im + u->e[i][j].im * v->c[j].re;
        }
        sum->c[i].re += factor * re;
        sum->c[i].im += factor * im;
    }
}

/* sum += factor * (adjoint of u) v. */
static inline void add_adjoint_product(vector *sum, double factor, const matrix *u,
                                       const vector *v)
{
    for (int i = 0; i < 3; i++) {
        double re = 0, im = 0;
        for (int j = 0; j < 3; j++) {
            re += u->e[j][i].re * v->c[j].re + u->e[j][i].im * v->c[j].im;
            im += u->e[j][i].re * v->c[j].im - u->e[j][i].im * v->c[j].re;
        }
        sum->c[i].re += factor * re;
        sum->c[i].im += factor * im;
    }
}

/* a b, or a times the adjoint of b. */
static inline matrix product(const matrix *a, const matrix *b, int is_adjoint)
{
    matrix c = {0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                complex_t x = a->e[i][k], y = is_adjoint ? b->e[j][k] : b->e[k][j];
                if (is_adjoint)
                    y.im = -y.im;
                c.e[i][j].re += x.re * y.re - x.im * y.im;
                c.e[i][j].im += x.re * y.im + x.im * y.re;
            }
    return c;
}

/* Real part of a's scalar product with b. */
static inline double dot(const vector *a, const vector *b)
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += a->c[i].re * b->c[i].re + a->c[i].im * b->c[i].im;
    return sum;
}

#endif
