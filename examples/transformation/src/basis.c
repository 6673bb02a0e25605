#include "basis.h"

#include <cint.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "job.h"

enum { PRIMITIVES_MAX = 64, COLUMNS_MAX = 16, SHELLS_MAX = 4096 };

/* One shell's numbers: exponents, and a column of coefficients for each contraction. */
struct table {
    int rows, columns;
    double exponent[PRIMITIVES_MAX];
    double coefficient[COLUMNS_MAX][PRIMITIVES_MAX];
};

/* NWChem's name of the file of a set: "6-311G(2df,2pd)" is in 6-311g2df_2pd,
 * "Ahlrichs VTZ" in ahlrichs_vtz. */
static void file_name(const char *set, char *name)
{
    for (; *set; set++) {
        if (*set == ' ' || *set == ',')
            *name++ = '_';
        else if (*set == '*')
            *name++ = 's';
        else if (*set == '/')
            fail("basis: there is no set `%s`", set);
        else if (*set != '(' && *set != ')')
            *name++ = (char)tolower((unsigned char)*set);
    }
    *name = 0;
}

static int env_add(struct basis *basis, int count)
{
    int at = basis->env_used;
    if (at + count > basis->env_room) {
        basis->env_room = 2 * (at + count);
        basis->env = realloc(basis->env, basis->env_room * sizeof *basis->env);
        if (!basis->env)
            fail("no memory for the basis");
    }
    basis->env_used += count;
    return at;
}

/* libcint takes coefficients of normalized primitives. How the contracted
 * function is normalized changes no energy. */
static void add_shell(struct basis *basis, int atom, int l, const struct table *table, int column,
                      int columns)
{
    if (basis->shells == SHELLS_MAX)
        fail("more than %d shells", SHELLS_MAX);
    int rows = table->rows, at = env_add(basis, rows * (1 + columns));
    double *exponents = basis->env + at, *coefficients = exponents + rows;
    for (int i = 0; i < rows; i++) {
        exponents[i] = table->exponent[i];
        for (int c = 0; c < columns; c++)
            coefficients[c * rows + i] =
                table->coefficient[column + c][i] * CINTgto_norm(l, exponents[i]);
    }
    int *slots = basis->bas + BAS_SLOTS * basis->shells++;
    slots[ATOM_OF] = atom;
    slots[ANG_OF] = l;
    slots[NPRIM_OF] = rows;
    slots[NCTR_OF] = columns;
    slots[PTR_EXP] = at;
    slots[PTR_COEFF] = at + rows;
}

/* `SP` and the like share exponents and have a column for each letter; a single
 * letter may have several columns, which are contractions of their own. */
static void add_table(struct basis *basis, int atom, const char *letters, const struct table *table)
{
    static const char ORDER[] = "spdfghi";
    int several = strlen(letters) > 1;
    if (!table->rows || (several && (size_t)table->columns != strlen(letters)))
        fail("the library's shell %s is not understood", letters);
    for (int i = 0; letters[i]; i++) {
        const char *place = strchr(ORDER, tolower((unsigned char)letters[i]));
        if (!place)
            fail("the library's shell %s is not understood", letters);
        add_shell(basis, atom, (int)(place - ORDER), table, several ? i : 0,
                  several ? 1 : table->columns);
    }
}

/* A line of numbers: the exponent and the coefficients. Fortran's D may stand for E. */
static void add_row(struct table *table, char *line)
{
    double numbers[1 + COLUMNS_MAX];
    int count = 0;
    for (char *c = line; *c; c++)
        if (*c == 'D' || *c == 'd')
            *c = 'E';
    for (char *word = strtok(line, " \t\n"); word; word = strtok(NULL, " \t\n")) {
        char *end;
        if (count == 1 + COLUMNS_MAX)
            fail("more than %d contractions share exponents", COLUMNS_MAX);
        numbers[count++] = strtod(word, &end);
        if (*end)
            fail("the library's number `%s` is not understood", word);
    }
    if (table->rows == PRIMITIVES_MAX || count < 2 || (table->rows && count != 1 + table->columns))
        fail("a shell of the library has no table of exponents and coefficients");
    table->columns = count - 1;
    table->exponent[table->rows] = numbers[0];
    for (int c = 1; c < count; c++)
        table->coefficient[c - 1][table->rows] = numbers[c];
    table->rows++;
}

/* Reads one element's section, up to `end`. */
static void read_section(FILE *file, struct basis *basis, int atom)
{
    struct table table = {0};
    char line[512], letters[8] = "";
    while (fgets(line, sizeof line, file)) {
        char symbol[8], shell[8];
        int words = sscanf(line, "%7s %7s", symbol, shell);
        if (words < 1 || *symbol == '#')
            continue;
        int is_end = strcasecmp(symbol, "end") == 0;
        if (!is_end && !isalpha((unsigned char)*symbol)) {
            add_row(&table, line);
            continue;
        }
        if (*letters)
            add_table(basis, atom, letters, &table);
        if (is_end)
            return;
        if (words != 2)
            fail("the library's line `%s` is not understood", line);
        memset(&table, 0, sizeof table);
        strcpy(letters, shell);
    }
    fail("the library's section has no end");
}

static void read_atom(const struct molecule *molecule, const char *path, struct basis *basis,
                      int atom)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot open the basis set %s: %s", path, strerror(errno));
    char line[512], title[128], wanted[8 + SETNAME_MAX];
    snprintf(wanted, sizeof wanted, "%s_%s", molecule->atom[atom].symbol, molecule->basis);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "basis \"%127[^\"]\"", title) == 1 && strcasecmp(title, wanted) == 0) {
            read_section(file, basis, atom);
            fclose(file);
            return;
        }
    }
    fail("%s has no \"%s\"", path, wanted);
}

static void place_atoms(const struct molecule *molecule, struct basis *basis)
{
    env_add(basis, PTR_ENV_START);
    memset(basis->env, 0, PTR_ENV_START * sizeof *basis->env);
    for (int i = 0; i < molecule->atoms; i++) {
        int at = env_add(basis, 3), *slots = basis->atm + ATM_SLOTS * i;
        memcpy(basis->env + at, molecule->atom[i].at, 3 * sizeof(double));
        slots[CHARGE_OF] = molecule->atom[i].charge;
        slots[PTR_COORD] = at;
        slots[NUC_MOD_OF] = POINT_NUC;
    }
}

void basis_read(const struct molecule *molecule, const char *library, struct basis *basis)
{
    char name[SETNAME_MAX], path[4096];
    memset(basis, 0, sizeof *basis);
    file_name(molecule->basis, name);
    snprintf(path, sizeof path, "%s/%s", library, name);
    basis->atoms = molecule->atoms;
    basis->is_spherical = molecule->is_spherical;
    basis->atm = allocate((size_t)basis->atoms * ATM_SLOTS, sizeof *basis->atm);
    basis->bas = allocate((size_t)SHELLS_MAX * BAS_SLOTS, sizeof *basis->bas);
    place_atoms(molecule, basis);
    for (int atom = 0; atom < molecule->atoms; atom++)
        read_atom(molecule, path, basis, atom);

    basis->first = allocate((size_t)basis->shells + 1, sizeof *basis->first);
    for (int i = 0; i < basis->shells; i++) {
        int size = basis->is_spherical ? CINTcgto_spheric(i, basis->bas)
                                       : CINTcgto_cart(i, basis->bas);
        basis->first[i + 1] = basis->first[i] + size;
        if (size > basis->largest)
            basis->largest = size;
    }
    basis->functions = basis->first[basis->shells];
    /* Labels have 16 bits for each function. */
    if (basis->functions > UINT16_MAX)
        fail("more than %d functions", UINT16_MAX);
}

void basis_free(struct basis *basis)
{
    free(basis->atm);
    free(basis->bas);
    free(basis->env);
    free(basis->first);
}
