#include "lattice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fail(const char *format, ...)
{
    va_list values;
    fprintf(stderr, "staggered: ");
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("no memory for %zu times %zu bytes", count, size);
    return memory;
}

/* The grid of ranks with the smallest surface of its boxes, all of even extents. */
static int choose_grid(struct lattice *l)
{
    long best = 0;
    int g[DIMS];
    for (g[0] = 1; g[0] <= l->ranks; g[0]++)
        for (g[1] = 1; g[1] <= l->ranks / g[0]; g[1]++)
            for (g[2] = 1; g[2] <= l->ranks / (g[0] * g[1]); g[2]++) {
                g[3] = l->ranks / (g[0] * g[1] * g[2]);
                int is_possible = g[0] * g[1] * g[2] * g[3] == l->ranks;
                long volume = 1, surface = 0;
                for (int d = 0; d < DIMS; d++) {
                    is_possible &= l->whole[d] % (2 * g[d]) == 0;
                    volume *= l->whole[d] / g[d];
                }
                if (!is_possible)
                    continue;
                for (int d = 0; d < DIMS; d++)
                    if (g[d] > 1)
                        surface += volume / (l->whole[d] / g[d]);
                if (best && surface >= best - 1)
                    continue;
                best = surface + 1;
                for (int d = 0; d < DIMS; d++)
                    l->grid[d] = g[d];
            }
    return best > 0;
}

static int rank_at(const struct lattice *l, const int place[DIMS])
{
    int rank = 0;
    for (int d = DIMS - 1; d >= 0; d--)
        rank = rank * l->grid[d] + (place[d] + l->grid[d]) % l->grid[d];
    return rank;
}

long site_number(const struct lattice *l, const int at[DIMS])
{
    long number = 0;
    for (int d = DIMS - 1; d >= 0; d--)
        number = number * l->whole[d] + (at[d] + l->whole[d]) % l->whole[d];
    return number;
}

/* Index of a site of this box: its place in the order of coordinates, even ones first. A pair of
 * neighbours in dimension 0 has one site of each parity, since extents are even. */
static int site_index(const struct lattice *l, const int at[DIMS])
{
    int place = 0, sum = 0;
    for (int d = DIMS - 1; d >= 0; d--) {
        place = place * l->box[d] + at[d] - l->origin[d];
        sum += at[d];
    }
    return place / 2 + (sum & 1) * l->half;
}

static void make_surface(struct lattice *l, int d)
{
    struct surface *s = &l->surface[d];
    s->count = l->half / l->box[d];
    for (int parity = 0; parity < 2; parity++) {
        s->low[parity] = allocate(s->count, sizeof(int));
        s->high[parity] = allocate(s->count, sizeof(int));
        int low = 0, high = 0;
        for (int i = parity * l->half; i < (parity + 1) * l->half; i++) {
            if (l->at[i][d] == l->origin[d])
                s->low[parity][low++] = i;
            if (l->at[i][d] == l->origin[d] + l->box[d] - 1)
                s->high[parity][high++] = i;
        }
    }
    s->send_low = allocate(s->count, sizeof(vector));
    s->send_high = allocate(s->count, sizeof(vector));
}

/* Sites of one parity on one end of a box, in order, and those of the other parity on the facing end
 * of the next box have the same order but for dimension d; so slot k is that of the k-th site. */
static void make_neighbours(struct lattice *l, int d)
{
    l->up[d] = allocate(l->sites, sizeof(int));
    l->down[d] = allocate(l->sites, sizeof(int));
    for (int i = 0; i < l->sites; i++)
        for (int step = -1; step <= 1; step += 2) {
            int at[DIMS];
            for (int e = 0; e < DIMS; e++)
                at[e] = l->at[i][e];
            at[d] += step;
            int end = l->origin[d] + l->box[d];
            if (l->grid[d] == 1)
                at[d] = (at[d] + l->box[d]) % l->box[d];
            int is_here = at[d] >= l->origin[d] && at[d] < end;
            (step > 0 ? l->up : l->down)[d][i] = is_here ? site_index(l, at) : -1;
        }
    if (l->grid[d] == 1)
        return;
    make_surface(l, d);
    struct surface *s = &l->surface[d];
    for (int parity = 0; parity < 2; parity++)
        for (int k = 0; k < s->count; k++) {
            l->up[d][s->high[parity][k]] = l->slots + k;
            l->down[d][s->low[parity][k]] = l->slots + s->count + k;
        }
    l->slots += 2 * s->count;
}

struct lattice *lattice_new(MPI_Comm comm, const int whole[DIMS])
{
    struct lattice *l = allocate(1, sizeof *l);
    l->comm = comm;
    MPI_Comm_rank(comm, &l->rank);
    MPI_Comm_size(comm, &l->ranks);
    for (int d = 0; d < DIMS; d++)
        l->whole[d] = whole[d];
    if (!choose_grid(l)) {
        free(l);
        return NULL;
    }
    int place[DIMS], rest = l->rank;
    l->sites = 1;
    for (int d = 0; d < DIMS; d++) {
        place[d] = rest % l->grid[d];
        rest /= l->grid[d];
        l->box[d] = whole[d] / l->grid[d];
        l->origin[d] = place[d] * l->box[d];
        l->sites *= l->box[d];
    }
    l->half = l->sites / 2;
    l->slots = l->sites;
    l->at = allocate(l->sites, sizeof *l->at);
    for (int n = 0; n < l->sites; n++) {
        int at[DIMS], left = n;
        for (int d = 0; d < DIMS; d++) {
            at[d] = l->origin[d] + left % l->box[d];
            left /= l->box[d];
        }
        int i = site_index(l, at);
        for (int d = 0; d < DIMS; d++)
            l->at[i][d] = at[d];
    }
    for (int d = 0; d < DIMS; d++) {
        make_neighbours(l, d);
        for (int step = -1; step <= 1; step += 2) {
            place[d] += step;
            *(step < 0 ? &l->surface[d].below : &l->surface[d].above) = rank_at(l, place);
            place[d] -= step;
        }
        l->link[d] = allocate(l->sites, sizeof(matrix));
    }
    for (int parity = 0; parity < 2; parity++) {
        l->inner[parity] = allocate(l->half, sizeof(int));
        l->outer[parity] = allocate(l->half, sizeof(int));
        for (int i = parity * l->half; i < (parity + 1) * l->half; i++) {
            int is_inner = 1;
            for (int d = 0; d < DIMS; d++)
                is_inner &= l->up[d][i] < l->sites && l->down[d][i] < l->sites;
            if (is_inner)
                l->inner[parity][l->inners[parity]++] = i;
            else
                l->outer[parity][l->outers[parity]++] = i;
        }
    }
    return l;
}

void lattice_free(struct lattice *l)
{
    for (int d = 0; d < DIMS; d++) {
        struct surface *s = &l->surface[d];
        free(l->up[d]);
        free(l->down[d]);
        free(l->link[d]);
        free(s->send_low);
        free(s->send_high);
        for (int parity = 0; parity < 2; parity++) {
            free(s->low[parity]);
            free(s->high[parity]);
        }
    }
    for (int parity = 0; parity < 2; parity++) {
        free(l->inner[parity]);
        free(l->outer[parity]);
    }
    free(l->at);
    free(l);
}

double sum_over_ranks(const struct lattice *l, double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, l->comm);
    return value;
}

vector *field_new(const struct lattice *l)
{
    return allocate(l->slots, sizeof(vector));
}

/* The term of one site. Slots behind the sites hold neighbours' vectors, and, for the way down,
 * products with their links, which they have made. */
static void derive(const struct lattice *l, vector *to, const vector *from, const int *sites,
                   int count)
{
#pragma omp parallel for
    for (int k = 0; k < count; k++) {
        int x = sites[k];
        vector sum = {0};
        for (int d = 0; d < DIMS; d++) {
            add_product(&sum, 1, &l->link[d][x], &from[l->up[d][x]]);
            int y = l->down[d][x];
            if (y < l->sites)
                add_adjoint_product(&sum, -1, &l->link[d][y], &from[y]);
            else
                for (int i = 0; i < 3; i++) {
                    sum.c[i].re -= from[y].c[i].re;
                    sum.c[i].im -= from[y].c[i].im;
                }
        }
        to[x] = sum;
    }
}

void derivative(const struct lattice *l, vector *to, vector *from, int to_parity)
{
    MPI_Request requests[4 * DIMS];
    int count = 0, from_parity = 1 - to_parity;
    vector *slot = from + l->sites;
    for (int d = 0; d < DIMS; d++) {
        const struct surface *s = &l->surface[d];
        if (l->grid[d] == 1)
            continue;
        int numbers = 6 * s->count;
        MPI_Irecv(slot, numbers, MPI_DOUBLE, s->above, 2 * d, l->comm, &requests[count++]);
        MPI_Irecv(slot + s->count, numbers, MPI_DOUBLE, s->below, 2 * d + 1, l->comm,
                  &requests[count++]);
        slot += 2 * s->count;
    }
    for (int d = 0; d < DIMS; d++) {
        const struct surface *s = &l->surface[d];
        if (l->grid[d] == 1)
            continue;
        for (int k = 0; k < s->count; k++)
            s->send_low[k] = from[s->low[from_parity][k]];
        MPI_Isend(s->send_low, 6 * s->count, MPI_DOUBLE, s->below, 2 * d, l->comm,
                  &requests[count++]);
        for (int k = 0; k < s->count; k++) {
            int y = s->high[from_parity][k];
            s->send_high[k] = (vector){0};
            add_adjoint_product(&s->send_high[k], 1, &l->link[d][y], &from[y]);
        }
        MPI_Isend(s->send_high, 6 * s->count, MPI_DOUBLE, s->above, 2 * d + 1, l->comm,
                  &requests[count++]);
    }
    derive(l, to, from, l->inner[to_parity], l->inners[to_parity]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    derive(l, to, from, l->outer[to_parity], l->outers[to_parity]);
}
