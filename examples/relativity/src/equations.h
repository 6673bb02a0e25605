/* Einstein's equations in vacuum as Bona and Masso wrote them: first order in space and time, in
 * the form of conservation laws with sources, with harmonic slicing and without a shift.
 *
 * Indices are spatial; those of symmetric pairs are stored once, in the order xx xy xz yy yz zz. */
#ifndef EQUATIONS_H
#define EQUATIONS_H

/* Where a point's variables are. */
enum {
    LAPSE = 0,       /* alpha */
    METRIC = 1,      /* gamma_ij */
    EXTRINSIC = 7,   /* K_ij */
    GRADIENT = 13,   /* A_i = d_i ln alpha */
    DERIVATIVE = 16, /* D_kij = d_k gamma_ij / 2, k outermost */
    VECTOR = 34,     /* V_i = D_ir^r - D^r_ri */
    VARIABLES = 37
};

/* Where a point's fluxes are. */
enum {
    FLUX_EXTRINSIC = 0,   /* alpha lambda^k_ij, k outermost */
    FLUX_DERIVATIVE = 18, /* alpha K_ij: the flux of D_kij in direction k */
    FLUX_GRADIENT = 24,   /* alpha tr K: the flux of A_k in direction k */
    FLUXES = 25
};

/* Place of a symmetric pair. */
extern const int PAIR[3][3];

/* The fluxes of a point, from its variables. */
void fluxes(const double *u, double *f);

/* The change in time of a point: its sources, and the differences of the fluxes at its neighbours `down` and
 * `up` in each direction, over twice the distance. */
void change(const double *u, const double *const down[3], const double *const up[3], double scale,
            double *rate);

/* What is 0 in vacuum, of a point and its neighbours' variables: the Hamiltonian constraint
 * R + (tr K)^2 - K_ij K^ij. */
double hamiltonian(const double *u, const double *const down[3], const double *const up[3],
                   double scale);

/* How far `rate` is from the equations of Arnowitt, Deser and Misner for K_ij, and from the definition of V_i
 * with the momentum constraint, both computed in another way from the same point and its neighbours. */
double disagreement(const double *u, const double *const down[3], const double *const up[3],
                    double scale, const double *rate);

/* V_i of a point, by its definition. */
void set_vector(double *u);

#endif
