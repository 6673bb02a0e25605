#include "fields.h"

#include <math.h>
#include <stdint.h>

/* SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The n-th normally distributed number of a site and a stream (Box and Muller). */
static double normal(unsigned long seed, int stream, long site, int n)
{
    uint64_t key = scramble(scramble(scramble(seed) ^ (uint64_t)stream) ^ (uint64_t)site);
    uint64_t one = scramble(key ^ (uint64_t)(2 * n)), two = scramble(key ^ (uint64_t)(2 * n + 1));
    double u = ((double)(one >> 11) + 0.5) / 9007199254740992.0;
    double v = ((double)(two >> 11) + 0.5) / 9007199254740992.0;
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* A random matrix of SU(3): two random rows made orthonormal, and the conjugate of their cross
 * product, which makes the determinant 1. */
static matrix random_matrix(unsigned long seed, int stream, long site, int which)
{
    matrix u;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++) {
            int n = 2 * (j + 3 * (i + 2 * which));
            u.e[i][j].re = normal(seed, stream, site, n);
            u.e[i][j].im = normal(seed, stream, site, n + 1);
        }
    for (int i = 0; i < 2; i++) {
        double re = 0, im = 0, norm = 0;
        for (int j = 0; j < 3 && i == 1; j++) { /* row 0, conjugate, times row 1 */
            re += u.e[0][j].re * u.e[1][j].re + u.e[0][j].im * u.e[1][j].im;
            im += u.e[0][j].re * u.e[1][j].im - u.e[0][j].im * u.e[1][j].re;
        }
        for (int j = 0; j < 3; j++) {
            u.e[i][j].re -= re * u.e[0][j].re - im * u.e[0][j].im;
            u.e[i][j].im -= re * u.e[0][j].im + im * u.e[0][j].re;
            norm += u.e[i][j].re * u.e[i][j].re + u.e[i][j].im * u.e[i][j].im;
        }
        for (int j = 0; j < 3; j++) {
            u.e[i][j].re /= sqrt(norm);
            u.e[i][j].im /= sqrt(norm);
        }
    }
    for (int j = 0; j < 3; j++) {
        complex_t a = u.e[0][(j + 1) % 3], b = u.e[1][(j + 2) % 3];
        complex_t c = u.e[0][(j + 2) % 3], d = u.e[1][(j + 1) % 3];
        u.e[2][j].re = a.re * b.re - a.im * b.im - c.re * d.re + c.im * d.im;
        u.e[2][j].im = -(a.re * b.im + a.im * b.re - c.re * d.im - c.im * d.re);
    }
    return u;
}

static matrix transformation(const struct lattice *l, unsigned long seed, const int at[DIMS])
{
    return random_matrix(seed, TURNS, site_number(l, at), 0);
}

/* A link without phases: any rank can make any link. */
static matrix link_at(const struct lattice *l, const struct gauge_field *g, const int at[DIMS],
                      int d)
{
    matrix u = {{{{1, 0}}, {{0, 0}, {1, 0}}, {{0, 0}, {0, 0}, {1, 0}}}};
    if (g->gauge == RANDOM)
        u = random_matrix(g->seed, LINKS, site_number(l, at), d);
    if (g->is_turned) {
        int next[DIMS];
        for (int e = 0; e < DIMS; e++)
            next[e] = at[e] + (e == d);
        matrix here = transformation(l, g->seed, at), there = transformation(l, g->seed, next);
        u = product(&here, &u, 0);
        u = product(&u, &there, 1);
    }
    return u;
}

/* eta_mu(x) = (-1)^(x_0 + ... + x_(mu-1)) (Kawamoto and Smit 1981), and a minus for the link that
 * goes around time, which makes quarks antiperiodic there. */
static double phase(const struct lattice *l, const int at[DIMS], int d)
{
    int sum = 0;
    for (int e = 0; e < d; e++)
        sum += at[e];
    int is_around = d == DIMS - 1 && at[d] == l->whole[d] - 1;
    return (sum & 1) != is_around ? -1 : 1;
}

void set_links(struct lattice *l, const struct gauge_field *g)
{
    for (int d = 0; d < DIMS; d++)
        for (int i = 0; i < l->sites; i++) {
            matrix u = link_at(l, g, l->at[i], d);
            double sign = phase(l, l->at[i], d);
            for (int j = 0; j < 3; j++)
                for (int k = 0; k < 3; k++) {
                    u.e[j][k].re *= sign;
                    u.e[j][k].im *= sign;
                }
            l->link[d][i] = u;
        }
}

double plaquette(const struct lattice *l, const struct gauge_field *g)
{
    double sum = 0;
    for (int i = 0; i < l->sites; i++)
        for (int d = 0; d < DIMS; d++)
            for (int e = 0; e < d; e++) {
                int by_d[DIMS], by_e[DIMS];
                for (int f = 0; f < DIMS; f++) {
                    by_d[f] = l->at[i][f] + (f == d);
                    by_e[f] = l->at[i][f] + (f == e);
                }
                matrix one = link_at(l, g, l->at[i], d), two = link_at(l, g, by_d, e);
                matrix three = link_at(l, g, by_e, d), four = link_at(l, g, l->at[i], e);
                matrix u = product(&one, &two, 0);
                u = product(&u, &three, 1);
                u = product(&u, &four, 1);
                sum += u.e[0][0].re + u.e[1][1].re + u.e[2][2].re;
            }
    double sites = (double)l->sites * l->ranks;
    return sum_over_ranks(l, sum) / (6 * sites);
}

void set_source(const struct lattice *l, vector *v, unsigned long seed, int has_odd)
{
    for (int i = 0; i < l->sites; i++) {
        long site = site_number(l, l->at[i]);
        for (int c = 0; c < 3; c++) {
            int is_set = i < l->half || has_odd;
            v[i].c[c].re = is_set ? normal(seed, SOURCE, site, 2 * c) : 0;
            v[i].c[c].im = is_set ? normal(seed, SOURCE, site, 2 * c + 1) : 0;
        }
    }
}

void turn(const struct lattice *l, vector *v, unsigned long seed)
{
    for (int i = 0; i < l->sites; i++) {
        matrix g = transformation(l, seed, l->at[i]);
        vector turned = {0};
        add_product(&turned, 1, &g, &v[i]);
        v[i] = turned;
    }
}
