#include "molecule.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "job.h"

/* NWChem's own factor, printed as "scale by": energies are compared. */
static const double BOHR_PER_ANGSTROM = 1.889725989;

static const char *const SYMBOLS[] = {
    "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg",
    "Al", "Si", "P",  "S",  "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr",
    "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr",
};

enum block { OUTSIDE, GEOMETRY, BASIS, OTHER };

static int charge_of(const char *symbol)
{
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++)
        if (strcasecmp(symbol, SYMBOLS[i]) == 0)
            return (int)i + 1;
    return 0;
}

static void begin_geometry(char *words, double *scale)
{
    *scale = BOHR_PER_ANGSTROM;
    for (char *word = strtok(words, " \t"); word; word = strtok(NULL, " \t")) {
        if (strcasecmp(word, "au") == 0 || strcasecmp(word, "bohr") == 0 ||
            strcasecmp(word, "atomic") == 0)
            *scale = 1.0;
        else if (strcasecmp(word, "units") && strncasecmp(word, "angstrom", 8))
            fail("geometry: `%s` is not understood", word);
    }
}

static void begin_basis(char *words, struct molecule *molecule)
{
    for (char *word = strtok(words, " \t"); word; word = strtok(NULL, " \t")) {
        if (strcasecmp(word, "spherical") == 0)
            molecule->is_spherical = 1;
        else if (strcasecmp(word, "cartesian"))
            fail("basis: `%s` is not understood", word);
    }
}

static void read_atom(const char *line, double scale, struct molecule *molecule)
{
    if (molecule->atoms == ATOMS_MAX)
        fail("more than %d atoms", ATOMS_MAX);
    struct atom *atom = &molecule->atom[molecule->atoms++];
    double at[3];
    if (sscanf(line, "%2s %lf %lf %lf", atom->symbol, &at[0], &at[1], &at[2]) != 4)
        fail("geometry: `%s` is no atom with its place", line);
    atom->charge = charge_of(atom->symbol);
    if (!atom->charge)
        fail("geometry: no element `%s` is known", atom->symbol);
    for (int i = 0; i < 3; i++)
        atom->at[i] = at[i] * scale;
}

static void read_library(const char *line, struct molecule *molecule)
{
    if (sscanf(line, "* library \"%63[^\"]\"", molecule->basis) != 1 &&
        sscanf(line, "* library %63s", molecule->basis) != 1)
        fail("basis: `%s` is not `* library \"NAME\"`, which is all that is understood", line);
}

/* Cuts off comment and blanks. */
static char *trimmed(char *line)
{
    line[strcspn(line, "#\r\n")] = 0;
    while (isspace((unsigned char)*line))
        line++;
    for (char *end = line + strlen(line); end > line && isspace((unsigned char)end[-1]);)
        *--end = 0;
    return line;
}

/* Which block a line outside of blocks begins. Those of one line need no `end`. */
static enum block begins(const char *word)
{
    static const char *const OTHERS[] = {"scf", "mp2", "tce", "dft", "ccsd", "driver"};
    if (strcasecmp(word, "geometry") == 0)
        return GEOMETRY;
    if (strcasecmp(word, "basis") == 0)
        return BASIS;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (strcasecmp(word, OTHERS[i]) == 0)
            return OTHER;
    return OUTSIDE;
}

void molecule_read(const char *path, struct molecule *molecule)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot open %s: %s", path, strerror(errno));
    memset(molecule, 0, sizeof *molecule);
    enum block block = OUTSIDE;
    double scale = 1.0;
    char buffer[512];
    while (fgets(buffer, sizeof buffer, file)) {
        char *line = trimmed(buffer), word[32] = "";
        sscanf(line, "%31s", word);
        if (!*word)
            continue;
        if (block == OUTSIDE) {
            block = begins(word);
            if (block == GEOMETRY)
                begin_geometry(line + strlen(word), &scale);
            if (block == BASIS)
                begin_basis(line + strlen(word), molecule);
        } else if (strcasecmp(word, "end") == 0) {
            block = OUTSIDE;
        } else if (block == GEOMETRY && strcasecmp(word, "symmetry")) {
            read_atom(line, scale, molecule);
        } else if (block == BASIS) {
            read_library(line, molecule);
        }
    }
    fclose(file);
    if (!molecule->atoms || !*molecule->basis)
        fail("%s: a block `geometry` and a block `basis` are needed", path);
}

int molecule_electrons(const struct molecule *molecule)
{
    int electrons = 0;
    for (int i = 0; i < molecule->atoms; i++)
        electrons += molecule->atom[i].charge;
    return electrons;
}

double molecule_repulsion(const struct molecule *molecule)
{
    double energy = 0.0;
    for (int i = 0; i < molecule->atoms; i++)
        for (int j = 0; j < i; j++) {
            const struct atom *a = &molecule->atom[i], *b = &molecule->atom[j];
            double square = 0.0;
            for (int x = 0; x < 3; x++)
                square += (a->at[x] - b->at[x]) * (a->at[x] - b->at[x]);
            energy += a->charge * b->charge / sqrt(square);
        }
    return energy;
}
