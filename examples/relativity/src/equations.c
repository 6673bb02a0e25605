#include "equations.h"

#include <math.h>

const int PAIR[3][3] = {{0, 1, 2}, {1, 3, 4}, {2, 4, 5}};

/* What follows from a point's variables alone, with all indices written out. */
struct geometry {
    double up[3][3];       /* gamma^ij */
    double k[3][3];        /* K_ij */
    double mixed[3][3];    /* K_i^j */
    double trace;          /* tr K */
    double d[3][3][3];     /* D_kij */
    double raised[3][3][3];/* D_ki^j */
    double dtrace[3];      /* D_kr^r = d_k ln sqrt(det gamma) */
    double divergence[3];  /* D^r_ri */
};

static void invert(const double *g, double up[3][3])
{
    double xx = g[3] * g[5] - g[4] * g[4], xy = g[2] * g[4] - g[1] * g[5];
    double xz = g[1] * g[4] - g[2] * g[3], yy = g[0] * g[5] - g[2] * g[2];
    double yz = g[1] * g[2] - g[0] * g[4], zz = g[0] * g[3] - g[1] * g[1];
    double over = 1 / (g[0] * xx + g[1] * xy + g[2] * xz);
    up[0][0] = xx * over;
    up[1][1] = yy * over;
    up[2][2] = zz * over;
    up[0][1] = up[1][0] = xy * over;
    up[0][2] = up[2][0] = xz * over;
    up[1][2] = up[2][1] = yz * over;
}

static void set_geometry(const double *u, struct geometry *g)
{
    invert(u + METRIC, g->up);
    g->trace = 0;
    for (int i = 0; i < 3; i++) {
        g->dtrace[i] = g->divergence[i] = 0;
        for (int j = 0; j < 3; j++) {
            g->k[i][j] = u[EXTRINSIC + PAIR[i][j]];
            for (int k = 0; k < 3; k++)
                g->d[k][i][j] = u[DERIVATIVE + 6 * k + PAIR[i][j]];
        }
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            g->mixed[i][j] = 0;
            for (int l = 0; l < 3; l++)
                g->mixed[i][j] += g->k[i][l] * g->up[l][j];
            for (int k = 0; k < 3; k++) {
                g->raised[k][i][j] = 0;
                for (int l = 0; l < 3; l++)
                    g->raised[k][i][j] += g->d[k][i][l] * g->up[l][j];
            }
        }
        g->trace += g->mixed[i][i];
    }
    for (int k = 0; k < 3; k++)
        for (int r = 0; r < 3; r++) {
            g->dtrace[k] += g->raised[k][r][r];
            g->divergence[k] += g->raised[r][k][r];
        }
}

/* c[k][i][j] = Gamma^k_ij */
static void christoffel(const struct geometry *g, double c[3][3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = i; j < 3; j++) {
            double low[3];
            for (int l = 0; l < 3; l++)
                low[l] = g->d[i][j][l] + g->d[j][i][l] - g->d[l][i][j];
            for (int k = 0; k < 3; k++)
                c[k][i][j] = c[k][j][i] =
                    g->up[k][0] * low[0] + g->up[k][1] * low[1] + g->up[k][2] * low[2];
        }
}

/* lambda^k_ij = D^k_ij + (delta^k_i (A_j + 2 V_j - D_jr^r) + delta^k_j (A_i + 2 V_i - D_ir^r)) / 2 */
void fluxes(const double *u, double *f)
{
    double up[3][3], trace = 0, dtrace[3], alpha = u[LAPSE];
    invert(u + METRIC, up);
    const double *d = u + DERIVATIVE, *k = u + EXTRINSIC;
    for (int i = 0; i < 3; i++) {
        const double *of = d + 6 * i;
        dtrace[i] = up[0][0] * of[0] + up[1][1] * of[3] + up[2][2] * of[5] +
                    2 * (up[0][1] * of[1] + up[0][2] * of[2] + up[1][2] * of[4]);
        for (int p = 0; p < 6; p++)
            f[FLUX_EXTRINSIC + 6 * i + p] =
                alpha * (up[i][0] * d[p] + up[i][1] * d[6 + p] + up[i][2] * d[12 + p]);
    }
    for (int i = 0; i < 3; i++) {
        double half = alpha * (u[GRADIENT + i] + 2 * u[VECTOR + i] - dtrace[i]) / 2;
        for (int j = 0; j < 3; j++)
            f[FLUX_EXTRINSIC + 6 * j + PAIR[i][j]] += i == j ? 2 * half : half;
    }
    for (int p = 0; p < 6; p++)
        f[FLUX_DERIVATIVE + p] = alpha * k[p];
    trace = up[0][0] * k[0] + up[1][1] * k[3] + up[2][2] * k[5] +
            2 * (up[0][1] * k[1] + up[0][2] * k[2] + up[1][2] * k[4]);
    f[FLUX_GRADIENT] = alpha * trace;
}

/* S_ij of a pair: all of alpha (R_ij - 2 K_ik K^k_j + tr K K_ij) - nabla_i nabla_j alpha, over alpha, that is no
 * divergence of a flux. */
static double source(const double *u, const struct geometry *g, double c[3][3][3], int i, int j)
{
    const double *a = u + GRADIENT, *v = u + VECTOR;
    double sum = g->trace * g->k[i][j] + a[i] * (v[j] - g->dtrace[j] / 2) +
                 a[j] * (v[i] - g->dtrace[i] / 2);
    for (int k = 0; k < 3; k++) {
        sum += -2 * g->mixed[i][k] * g->k[k][j] + g->dtrace[k] * c[k][i][j] -
               (2 * g->divergence[k] - a[k]) * (g->raised[i][j][k] + g->raised[j][i][k]);
        for (int r = 0; r < 3; r++)
            sum += 2 * g->raised[i][k][r] * g->raised[r][j][k] +
                   2 * g->raised[j][k][r] * g->raised[r][i][k] - c[k][r][i] * c[r][k][j];
    }
    return sum;
}

/* P_i: the change of V_i by its definition and those of gamma_ij and D_kij, from which the momentum constraint has
 * taken all derivatives. */
static double vector_source(const double *u, const struct geometry *g, int i)
{
    const double *a = u + GRADIENT;
    double sum = -a[i] * g->trace;
    for (int m = 0; m < 3; m++) {
        sum += g->mixed[i][m] * (a[m] + 2 * g->divergence[m] - g->dtrace[m]);
        for (int r = 0; r < 3; r++)
            sum += g->mixed[r][m] * (g->raised[i][m][r] - 2 * g->raised[m][i][r]);
    }
    return sum;
}

void change(const double *u, const double *const down[3], const double *const up[3], double scale,
            double *rate)
{
    struct geometry g;
    double c[3][3][3], alpha = u[LAPSE];
    set_geometry(u, &g);
    christoffel(&g, c);
    rate[LAPSE] = -alpha * alpha * g.trace;
    for (int i = 0; i < 3; i++)
        for (int j = i; j < 3; j++) {
            int p = PAIR[i][j];
            rate[METRIC + p] = -2 * alpha * g.k[i][j];
            double sum = alpha * source(u, &g, c, i, j);
            for (int k = 0; k < 3; k++) {
                int at = FLUX_EXTRINSIC + 6 * k + p;
                sum -= scale * (up[k][at] - down[k][at]);
                rate[DERIVATIVE + 6 * k + p] =
                    -scale * (up[k][FLUX_DERIVATIVE + p] - down[k][FLUX_DERIVATIVE + p]);
            }
            rate[EXTRINSIC + p] = sum;
        }
    for (int i = 0; i < 3; i++) {
        rate[GRADIENT + i] = -scale * (up[i][FLUX_GRADIENT] - down[i][FLUX_GRADIENT]);
        rate[VECTOR + i] = alpha * vector_source(u, &g, i);
    }
}

/* Ricci's tensor, d_k Gamma^k_ij - d_i d_j ln sqrt(det gamma) + Gamma Gamma - Gamma Gamma, by differences of the
 * Christoffel symbols. */
static void ricci(const struct geometry *g, double c[3][3][3], const double *const down[3],
                  const double *const up[3], double scale, double r[3][3])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            r[i][j] = 0;
            for (int k = 0; k < 3; k++) {
                r[i][j] += g->dtrace[k] * c[k][i][j];
                for (int m = 0; m < 3; m++)
                    r[i][j] -= c[k][m][i] * c[m][k][j];
            }
        }
    for (int k = 0; k < 3; k++)
        for (int side = -1; side <= 1; side += 2) {
            struct geometry other;
            double of[3][3][3];
            set_geometry(side < 0 ? down[k] : up[k], &other);
            christoffel(&other, of);
            for (int i = 0; i < 3; i++) {
                for (int j = 0; j < 3; j++)
                    r[i][j] += side * scale * of[k][i][j];
                r[k][i] -= side * scale * other.dtrace[i] / 2;
                r[i][k] -= side * scale * other.dtrace[i] / 2;
            }
        }
}

double hamiltonian(const double *u, const double *const down[3], const double *const up[3],
                   double scale)
{
    struct geometry g;
    double c[3][3][3], r[3][3];
    set_geometry(u, &g);
    christoffel(&g, c);
    ricci(&g, c, down, up, scale, r);
    double sum = g.trace * g.trace;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            sum += g.up[i][j] * r[i][j] - g.mixed[i][j] * g.mixed[j][i];
    return sum;
}

double disagreement(const double *u, const double *const down[3], const double *const up[3],
                    double scale, const double *rate)
{
    struct geometry g;
    double c[3][3][3], r[3][3], dk[3][3][3], dak[3][3][3], da[3][3], alpha = u[LAPSE], worst = 0;
    set_geometry(u, &g);
    christoffel(&g, c);
    ricci(&g, c, down, up, scale, r);
    for (int l = 0; l < 3; l++)
        for (int i = 0; i < 3; i++) {
            da[l][i] = scale * (up[l][GRADIENT + i] - down[l][GRADIENT + i]);
            for (int j = 0; j < 3; j++) {
                int at = EXTRINSIC + PAIR[i][j];
                dk[l][i][j] = scale * (up[l][at] - down[l][at]);
                dak[l][i][j] = scale * (up[l][LAPSE] * up[l][at] - down[l][LAPSE] * down[l][at]);
            }
        }
    const double *a = u + GRADIENT;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            /* d_t K_ij = alpha (R_ij - 2 K_ik K^k_j + tr K K_ij) - nabla_i nabla_j alpha */
            double sum = r[i][j] + g.trace * g.k[i][j] - (da[i][j] + da[j][i]) / 2 - a[i] * a[j];
            for (int k = 0; k < 3; k++)
                sum += c[k][i][j] * a[k] - 2 * g.mixed[i][k] * g.k[k][j];
            worst = fmax(worst, fabs(alpha * sum - rate[EXTRINSIC + PAIR[i][j]]));
        }
        /* d_t V_i by the definition of V_i, less alpha (nabla_r K^r_i - d_i tr K) */
        double sum = 0;
        for (int s = 0; s < 3; s++)
            for (int t = 0; t < 3; t++) {
                double both = 0, momentum = dk[s][t][i] - dk[i][s][t];
                for (int m = 0; m < 3; m++) {
                    both += g.mixed[m][t] * g.up[m][s];
                    momentum -= c[m][s][t] * g.k[m][i] + c[m][s][i] * g.k[t][m];
                }
                sum += 2 * alpha * both * (g.d[i][s][t] - g.d[s][t][i]) +
                       g.up[s][t] * (dak[s][t][i] - dak[i][s][t] - alpha * momentum) -
                       2 * alpha * both * g.d[i][s][t];
            }
        worst = fmax(worst, fabs(sum - rate[VECTOR + i]));
    }
    return worst;
}

void set_vector(double *u)
{
    struct geometry g;
    set_geometry(u, &g);
    for (int i = 0; i < 3; i++)
        u[VECTOR + i] = g.dtrace[i] - g.divergence[i];
}
