#include "grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINT_BYTES = VARIABLES * sizeof(double) };

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "relativity: no memory for %zu times %zu bytes\n", count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014). */
uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The cut with the smallest faces, by the largest box. */
static int choose_cut(struct grid *g)
{
    double best = INFINITY;
    int c[3];
    for (c[0] = 1; c[0] <= g->ranks; c[0]++)
        for (c[1] = 1; c[1] <= g->ranks / c[0]; c[1]++) {
            c[2] = g->ranks / (c[0] * c[1]);
            if (c[0] * c[1] * c[2] != g->ranks)
                continue;
            double side[3], faces = 0;
            int is_possible = 1;
            for (int d = 0; d < 3; d++) {
                is_possible &= c[d] <= g->whole[d];
                side[d] = (g->whole[d] + c[d] - 1) / c[d];
            }
            for (int d = 0; d < 3; d++)
                if (c[d] > 1)
                    faces += side[(d + 1) % 3] * side[(d + 2) % 3];
            if (is_possible && faces < best) {
                best = faces;
                memcpy(g->cut, c, sizeof c);
            }
        }
    return best < INFINITY;
}

static int rank_at(const struct grid *g, const int place[3])
{
    int rank = 0;
    for (int d = 2; d >= 0; d--)
        rank = rank * g->cut[d] + (place[d] + g->cut[d]) % g->cut[d];
    return rank;
}

static ptrdiff_t face_points(const struct grid *g, int d)
{
    return (ptrdiff_t)g->n[(d + 1) % 3] * g->n[(d + 2) % 3];
}

struct grid *grid_new(MPI_Comm comm, const int whole[3], double spacing)
{
    struct grid *g = allocate(1, sizeof *g);
    g->comm = comm;
    g->spacing = spacing;
    MPI_Comm_rank(comm, &g->rank);
    MPI_Comm_size(comm, &g->ranks);
    memcpy(g->whole, whole, sizeof g->whole);
    if (!choose_cut(g)) {
        free(g);
        return NULL;
    }
    int place[3], rest = g->rank;
    g->points = 1;
    for (int d = 0; d < 3; d++) {
        place[d] = rest % g->cut[d];
        rest /= g->cut[d];
        g->origin[d] = (int)((long)whole[d] * place[d] / g->cut[d]);
        g->n[d] = (int)((long)whole[d] * (place[d] + 1) / g->cut[d]) - g->origin[d];
        g->stride[d] = g->points;
        g->points *= g->n[d] + 2;
    }
    g->now = allocate(g->points, POINT_BYTES);
    g->next = allocate(g->points, POINT_BYTES);
    g->flux = allocate(g->points, FLUXES * sizeof(double));
    for (int d = 0; d < 3; d++) {
        for (int side = 0; side < 2; side++) {
            int other[3] = {place[0], place[1], place[2]};
            other[d] += side ? 1 : -1;
            *(side ? &g->above[d] : &g->below[d]) = rank_at(g, other);
            g->send[d][side] = allocate(face_points(g, d), POINT_BYTES);
            g->receive[d][side] = allocate(face_points(g, d), POINT_BYTES);
        }
    }
    return g;
}

void grid_free(struct grid *g)
{
    for (int d = 0; d < 3; d++)
        for (int side = 0; side < 2; side++) {
            free(g->send[d][side]);
            free(g->receive[d][side]);
        }
    free(g->now);
    free(g->next);
    free(g->flux);
    free(g);
}

/* Copies between a buffer and the points of a box at place `x` of dimension d. */
static void copy_face(const struct grid *g, double *u, int d, int x, double *buffer, int is_out)
{
    int e = (d + 1) % 3, f = (d + 2) % 3, place[3];
    place[d] = x;
    for (place[f] = 0; place[f] < g->n[f]; place[f]++)
        for (place[e] = 0; place[e] < g->n[e]; place[e]++) {
            double *point = u + VARIABLES * at(g, place[0], place[1], place[2]);
            memcpy(is_out ? buffer : point, is_out ? point : buffer, POINT_BYTES);
            buffer += VARIABLES;
        }
}

/* Sends the surfaces. Neighbours meet at faces only: nothing needs edges or corners. */
static void start_exchange(struct grid *g, double *u)
{
    g->pending = 0;
    for (int d = 0; d < 3; d++) {
        int count = (int)(VARIABLES * face_points(g, d));
        if (g->cut[d] == 1) {
            copy_face(g, u, d, 0, g->receive[d][1], 1);
            copy_face(g, u, d, g->n[d] - 1, g->receive[d][0], 1);
            continue;
        }
        MPI_Irecv(g->receive[d][0], count, MPI_DOUBLE, g->below[d], 2 * d, g->comm,
                  &g->requests[g->pending++]);
        MPI_Irecv(g->receive[d][1], count, MPI_DOUBLE, g->above[d], 2 * d + 1, g->comm,
                  &g->requests[g->pending++]);
        copy_face(g, u, d, 0, g->send[d][0], 1);
        copy_face(g, u, d, g->n[d] - 1, g->send[d][1], 1);
        MPI_Isend(g->send[d][1], count, MPI_DOUBLE, g->above[d], 2 * d, g->comm,
                  &g->requests[g->pending++]);
        MPI_Isend(g->send[d][0], count, MPI_DOUBLE, g->below[d], 2 * d + 1, g->comm,
                  &g->requests[g->pending++]);
    }
}

static void end_exchange(struct grid *g, double *u)
{
    MPI_Waitall(g->pending, g->requests, MPI_STATUSES_IGNORE);
    for (int d = 0; d < 3; d++) {
        copy_face(g, u, d, -1, g->receive[d][0], 0);
        copy_face(g, u, d, g->n[d], g->receive[d][1], 0);
    }
}

void exchange(struct grid *g, double *u)
{
    start_exchange(g, u);
    end_exchange(g, u);
}

static void set_flux(struct grid *g, const double *u, int x, int y, int z)
{
    ptrdiff_t p = at(g, x, y, z);
    fluxes(u + VARIABLES * p, g->flux + FLUXES * p);
}

/* The fluxes of the ghosts; those of inner points were computed while messages were on their way. */
static void set_ghost_fluxes(struct grid *g, const double *u)
{
    for (int d = 0; d < 3; d++) {
        int e = (d + 1) % 3, f = (d + 2) % 3, place[3];
        for (int side = 0; side < 2; side++) {
            place[d] = side ? g->n[d] : -1;
            for (place[f] = 0; place[f] < g->n[f]; place[f]++)
                for (place[e] = 0; place[e] < g->n[e]; place[e]++)
                    set_flux(g, u, place[0], place[1], place[2]);
        }
    }
}

/* Pointers to a point's neighbours in an array with that many numbers a point. */
static void neighbours(const struct grid *g, const double *u, int numbers, ptrdiff_t p,
                       const double *down[3], const double *up[3])
{
    for (int d = 0; d < 3; d++) {
        down[d] = u + numbers * (p - g->stride[d]);
        up[d] = u + numbers * (p + g->stride[d]);
    }
}

/* next = (1 - part) now + part (next + step rate(next)). Rates need neighbours' fluxes, no variables, so it is done
 * in place. */
static void stage(struct grid *g, double part, double step)
{
    start_exchange(g, g->next);
    FOR_POINTS(g, x, y, z)
        set_flux(g, g->next, x, y, z);
    end_exchange(g, g->next);
    set_ghost_fluxes(g, g->next);
    double scale = 1 / (2 * g->spacing);
    FOR_POINTS(g, x, y, z)
    {
        ptrdiff_t p = at(g, x, y, z);
        const double *down[3], *up[3];
        neighbours(g, g->flux, FLUXES, p, down, up);
        double *to = g->next + VARIABLES * p, rate[VARIABLES];
        const double *from = g->now + VARIABLES * p;
        change(to, down, up, scale, rate);
        for (int v = 0; v < VARIABLES; v++)
            to[v] = (1 - part) * from[v] + part * (to[v] + step * rate[v]);
    }
}

void evolve(struct grid *g, double step)
{
    memcpy(g->next, g->now, g->points * POINT_BYTES);
    stage(g, 1, step);
    stage(g, 1.0 / 4, step);
    stage(g, 2.0 / 3, step);
    double *now = g->next;
    g->next = g->now;
    g->now = now;
}

double largest(const struct grid *g, double value)
{
    /* MPI_MAX may lose a NaN. */
    double all = isnan(value) ? INFINITY : value;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_DOUBLE, MPI_MAX, g->comm);
    return all;
}

uint64_t digest(const struct grid *g)
{
    uint64_t sum = 0;
    FOR_POINTS(g, x, y, z)
    {
        uint64_t number = g->origin[2] + z;
        number = number * g->whole[1] + g->origin[1] + y;
        number = number * g->whole[0] + g->origin[0] + x;
        for (int v = 0; v < VARIABLES; v++) {
            uint64_t bits;
            memcpy(&bits, g->now + VARIABLES * at(g, x, y, z) + v, sizeof bits);
            sum += scramble(bits ^ scramble(VARIABLES * number + v));
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, g->comm);
    return sum;
}

double largest_hamiltonian(struct grid *g)
{
    double worst = 0;
    exchange(g, g->now);
    FOR_POINTS(g, x, y, z)
    {
        ptrdiff_t p = at(g, x, y, z);
        const double *down[3], *up[3];
        neighbours(g, g->now, VARIABLES, p, down, up);
        double h = fabs(hamiltonian(g->now + VARIABLES * p, down, up, 1 / (2 * g->spacing)));
        worst = h <= worst ? worst : h;
    }
    return largest(g, worst);
}

double largest_disagreement(struct grid *g)
{
    double worst = 0, scale = 1 / (2 * g->spacing);
    exchange(g, g->now);
    FOR_POINTS(g, x, y, z)
        set_flux(g, g->now, x, y, z);
    set_ghost_fluxes(g, g->now);
    FOR_POINTS(g, x, y, z)
    {
        ptrdiff_t p = at(g, x, y, z);
        const double *down[3], *up[3];
        double rate[VARIABLES];
        neighbours(g, g->flux, FLUXES, p, down, up);
        change(g->now + VARIABLES * p, down, up, scale, rate);
        neighbours(g, g->now, VARIABLES, p, down, up);
        double apart = disagreement(g->now + VARIABLES * p, down, up, scale, rate);
        worst = apart <= worst ? worst : apart;
    }
    return largest(g, worst);
}
