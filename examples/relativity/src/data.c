#include "data.h"

#include <math.h>

static void place_of(const struct grid *g, int x, int y, int z, double place[3])
{
    place[0] = (g->origin[0] + x) * g->spacing;
    place[1] = (g->origin[1] + y) * g->spacing;
    place[2] = (g->origin[2] + z) * g->spacing;
}

/* ds^2 = -H dt^2 + H (n dx)^2 + (other directions): alpha = sqrt(H), gamma_ij = delta_ij + (H - 1) n_i n_j. */
void wave_at(const struct wave *w, const double x[3], double time, double *u)
{
    double k = 0, phase = 0, n[3];
    for (int d = 0; d < 3; d++) {
        k += w->k[d] * w->k[d];
        phase += w->k[d] * x[d];
    }
    k = sqrt(k);
    for (int d = 0; d < 3; d++)
        n[d] = w->k[d] / k;
    phase = 2 * M_PI * (phase - k * time);
    double h = 1 - w->amplitude * sin(phase);
    double slope = -w->amplitude * 2 * M_PI * k * cos(phase); /* along n; in time minus that */
    u[LAPSE] = sqrt(h);
    for (int i = 0; i < 3; i++) {
        u[GRADIENT + i] = slope * n[i] / (2 * h);
        u[VECTOR + i] = 0;
        for (int j = i; j < 3; j++) {
            u[METRIC + PAIR[i][j]] = (i == j) + (h - 1) * n[i] * n[j];
            u[EXTRINSIC + PAIR[i][j]] = slope * n[i] * n[j] / (2 * sqrt(h));
            for (int l = 0; l < 3; l++)
                u[DERIVATIVE + 6 * l + PAIR[i][j]] = slope * n[l] * n[i] * n[j] / 2;
        }
    }
}

void set_wave(struct grid *g, const struct wave *w)
{
    double place[3];
    FOR_POINTS(g, x, y, z)
    {
        place_of(g, x, y, z, place);
        wave_at(w, place, 0, g->now + VARIABLES * at(g, x, y, z));
    }
}

/* The largest difference of the variables of a point, NaN as infinity. */
static double difference(const double *u, const double *expected)
{
    double worst = 0;
    for (int v = 0; v < VARIABLES; v++) {
        double apart = fabs(u[v] - expected[v]);
        worst = apart <= worst ? worst : isnan(apart) ? INFINITY : apart;
    }
    return worst;
}

double wave_error(const struct grid *g, const struct wave *w, double time)
{
    double worst = 0, place[3], exact[VARIABLES];
    FOR_POINTS(g, x, y, z)
    {
        place_of(g, x, y, z, place);
        wave_at(w, place, time, exact);
        worst = fmax(worst, difference(g->now + VARIABLES * at(g, x, y, z), exact));
    }
    return largest(g, worst);
}

static void set_flat(double *u)
{
    for (int v = 0; v < VARIABLES; v++)
        u[v] = v == LAPSE || v == METRIC || v == METRIC + 3 || v == METRIC + 5;
}

void set_noise(struct grid *g, double amplitude, unsigned long seed)
{
    FOR_POINTS(g, x, y, z)
    {
        uint64_t number = g->origin[2] + z;
        number = number * g->whole[1] + g->origin[1] + y;
        number = number * g->whole[0] + g->origin[0] + x;
        double *u = g->now + VARIABLES * at(g, x, y, z);
        set_flat(u);
        for (int v = 0; v < VARIABLES; v++) {
            uint64_t bits = scramble(scramble(seed) ^ (VARIABLES * number + v));
            u[v] += amplitude * (2 * ((double)(bits >> 11) + 0.5) / 9007199254740992.0 - 1);
        }
    }
}

double noise_size(const struct grid *g)
{
    double worst = 0, flat[VARIABLES];
    set_flat(flat);
    FOR_POINTS(g, x, y, z)
        worst = fmax(worst, difference(g->now + VARIABLES * at(g, x, y, z), flat));
    return largest(g, worst);
}

/* 0.1 times a sine of a phase of its own for each component, with its derivatives. */
static double ripple(int which, const double x[3], double slope[3])
{
    int k[3] = {1 + which % 2, 1 - which % 3, which % 2 - 1};
    double phase = which + 2 * M_PI * (k[0] * x[0] + k[1] * x[1] + k[2] * x[2]);
    for (int d = 0; d < 3; d++)
        slope[d] = 0.1 * 2 * M_PI * k[d] * cos(phase);
    return 0.1 * sin(phase);
}

void set_curved(struct grid *g)
{
    double place[3], slope[3];
    FOR_POINTS(g, x, y, z)
    {
        double *u = g->now + VARIABLES * at(g, x, y, z);
        place_of(g, x, y, z, place);
        set_flat(u);
        u[LAPSE] += ripple(0, place, slope);
        for (int d = 0; d < 3; d++)
            u[GRADIENT + d] = slope[d] / u[LAPSE];
        for (int p = 0; p < 6; p++) {
            u[METRIC + p] += ripple(1 + p, place, slope);
            for (int d = 0; d < 3; d++)
                u[DERIVATIVE + 6 * d + p] = slope[d] / 2;
            u[EXTRINSIC + p] = ripple(7 + p, place, slope);
        }
        set_vector(u);
    }
}
