/* The algorithms that Open MPI's coll/tuned, or MPICH, has for each collective, beside its own choice.
 *
 *   algorithms BUDGET_MS ROUNDS OPERATIONS LENGTHS LEFT_OUT NAMES
 *
 * OPERATIONS and LENGTHS as in collectives.c. LEFT_OUT are pairs such as bcast:4,reduce:2, or "-". An algorithm is set
 * by MPI_T, and all are measured in one job, in turns. Open MPI tells ids and names itself, and NAMES is "-"; the
 * communicator that is made next takes the algorithm. It takes OMPI_MCA_coll_tuned_use_dynamic_rules=1. For MPICH NAMES
 * are such as bcast:binomial,nb;reduce:binomial, and the ids count them from 1; the next call takes the algorithm.
 *
 * An algorithm is measured when it is right for any input: roots, sums and an operation that does not commute, lengths
 * that do not divide, MPI_IN_PLACE, types with gaps, and types that differ between ranks and say the same. What the
 * MPI's own choice does wrong itself is not held against it.
 *
 * JSON lines from rank 0: {"trying":..} before an algorithm is tried, for whoever finds that it never comes back;
 * {"wrong":..}; and for each length of those that are right the slowest rank's mean of each round, in nanoseconds,
 * algorithm 0 being the own choice. Barriers before each call are of a communicator with the own choice. */
#include "common.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MIN = 3, CALLS_MAX = 200, WARM_UP = 2, ALGORITHMS_MAX = 32, CASES_MAX = 16, ROUNDS_MAX = 64 };
/* An algorithm that has not come back after so long is given up, with the job. */
enum { PATIENCE_S = 20 };

static int rank, ranks;
static MPI_Comm const all = MPI_COMM_WORLD;

/* An operation that is associative and does not commute: f(x) = a x + b, one after the other. */
struct step { uint32_t a, b; };
static MPI_Datatype step_type;
static MPI_Op then;

static void compose(void *first, void *second, int *len, MPI_Datatype *type) {
    const struct step *f = first;
    struct step *g = second;
    (void)type;
    for (int i = 0; i < *len; i++) {
        struct step one = {f[i].a * g[i].a, f[i].b * g[i].a + g[i].b};
        g[i] = one;
    }
}

static struct step step_of(int from, int i) {
    struct step one = {(uint32_t)(2 * from + 3), (uint32_t)(from * 5 + i)};
    return one;
}

static struct step all_steps(int i) {
    struct step whole = step_of(0, i), next;
    for (int r = 1; r < ranks; r++) {
        next = step_of(r, i);
        struct step both = {whole.a * next.a, whole.b * next.a + next.b};
        whole = both;
    }
    return whole;
}

static int32_t token(int from, int to, int i) { return (from * 31 + to * 7 + i) & 0xffff; }

static int32_t sum_of_tokens(int i) {
    int32_t sum = 0;
    for (int r = 0; r < ranks; r++) sum += token(r, 0, i);
    return sum;
}

/* ---- what is right: each case answers 0 where it is ---- */

/* Numbers of 4 bytes in the longest block that is measured, and room behind it for gaps. */
enum { FAR = 1 << 18 };
static int32_t *out, *in;
static int *counts, *places;

static size_t roomy(void) { return (size_t)ranks * (FAR + 8); }

static int all_zero(const int32_t *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (from[i]) return 0;
    return 1;
}

static int reduces(MPI_Comm comm, int n, int root, int in_place, int everywhere) {
    struct step *mine = (struct step *)out, *got = (struct step *)in;
    int is_root = everywhere || rank == root, wrong = 0;
    for (int i = 0; i < n; i++) mine[i] = step_of(rank, i);
    memset(in, 0x55, roomy() * sizeof *in);
    if (in_place && is_root) memcpy(got, mine, (size_t)n * sizeof *got);
    const void *from = in_place && is_root ? MPI_IN_PLACE : (void *)mine;
    int error = everywhere ? MPI_Allreduce(from, got, n, step_type, then, comm)
                           : MPI_Reduce(from, got, n, step_type, then, root, comm);
    for (int i = 0; i < n && is_root; i++) {
        struct step wanted = all_steps(i);
        wrong |= got[i].a != wanted.a || got[i].b != wanted.b;
    }
    for (int i = 0; i < n; i++) out[i] = token(rank, 0, i);
    if (in_place && is_root) memcpy(in, out, (size_t)n * sizeof *in);
    from = in_place && is_root ? MPI_IN_PLACE : (void *)out;
    error |= everywhere ? MPI_Allreduce(from, in, n, MPI_INT32_T, MPI_SUM, comm)
                        : MPI_Reduce(from, in, n, MPI_INT32_T, MPI_SUM, root, comm);
    for (int i = 0; i < n && is_root; i++) wrong |= in[i] != sum_of_tokens(i);
    return error || wrong;
}

static int scatters_sums(MPI_Comm comm, int n, int in_place) {
    struct step *mine = (struct step *)out, *got = (struct step *)in;
    int wrong = 0, place = 0;
    /* Uneven: the first ranks get more, some nothing. */
    for (int r = 0; r < ranks; r++) {
        counts[r] = n / ranks + (r < n % ranks);
        places[r] = place;
        place += counts[r];
    }
    for (int i = 0; i < n; i++) mine[i] = step_of(rank, i);
    memset(in, 0x55, roomy() * sizeof *in);
    if (in_place) memcpy(got, mine, (size_t)n * sizeof *got);
    int error = MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : (void *)mine, got, counts, step_type, then, comm);
    for (int i = 0; i < counts[rank]; i++) {
        struct step wanted = all_steps(places[rank] + i);
        wrong |= got[i].a != wanted.a || got[i].b != wanted.b;
    }
    for (int i = 0; i < n; i++) out[i] = token(rank, 0, i);
    error |= MPI_Reduce_scatter(out, in, counts, MPI_INT32_T, MPI_SUM, comm);
    for (int i = 0; i < counts[rank]; i++) wrong |= in[i] != sum_of_tokens(places[rank] + i);
    return error || wrong;
}

/* Every other number; odd ranks say with one item what even ones say with n. */
static int broadcasts(MPI_Comm comm, int n, int root, int differs) {
    MPI_Datatype gaps, whole;
    MPI_Type_vector(n, 1, 2, MPI_INT32_T, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Type_contiguous(n, MPI_INT32_T, &whole);
    MPI_Type_commit(&whole);
    int step = differs && rank % 2 ? 1 : 2, wrong = 0, error;
    memset(in, 0, roomy() * sizeof *in);
    for (int i = 0; i < n && rank == root; i++) in[i * step] = token(root, 0, i) + 1;
    if (!differs) error = MPI_Bcast(in, 1, gaps, root, comm);
    else if (rank % 4 == 1) error = MPI_Bcast(in, 1, whole, root, comm);
    else if (rank % 2) error = MPI_Bcast(in, n, MPI_INT32_T, root, comm);
    else error = MPI_Bcast(in, 1, gaps, root, comm);
    for (int i = 0; i < n; i++) {
        wrong |= in[i * step] != token(root, 0, i) + 1;
        if (step == 2) wrong |= in[i * step + 1] != 0;
    }
    wrong |= !all_zero(in + 2 * n, 8);
    MPI_Type_free(&gaps);
    MPI_Type_free(&whole);
    return error || wrong;
}

static int gathers(MPI_Comm comm, int n, int root, int in_place, int everywhere) {
    MPI_Datatype gaps;
    MPI_Type_vector(n, 1, 2, MPI_INT32_T, &gaps);
    MPI_Type_commit(&gaps);
    int is_root = everywhere || rank == root, wrong = 0;
    memset(in, 0, roomy() * sizeof *in);
    memset(out, 0, roomy() * sizeof *out);
    size_t each = (size_t)(2 * n - 1);   /* the extent of `gaps` */
    for (int i = 0; i < n; i++) out[2 * i] = token(rank, 0, i) + 1;
    if (in_place && is_root) memcpy(in + (size_t)rank * each, out, each * sizeof *in);
    const void *from = in_place && is_root ? MPI_IN_PLACE : (void *)out;
    /* What does not count is given as programs give it. */
    int send = in_place && is_root ? 0 : 1;
    int error = everywhere ? MPI_Allgather(from, send, gaps, in, 1, gaps, comm)
                           : MPI_Gather(from, send, gaps, in, is_root ? 1 : 0, gaps, root, comm);
    for (int r = 0; r < ranks && is_root; r++)
        for (int i = 0; i < n; i++) {
            wrong |= in[(size_t)r * each + 2 * (size_t)i] != token(r, 0, i) + 1;
            if (i) wrong |= in[(size_t)r * each + 2 * (size_t)i - 1] != 0;
        }
    MPI_Type_free(&gaps);
    return error || wrong;
}

static int scatters(MPI_Comm comm, int n, int root, int in_place) {
    memset(in, 0, roomy() * sizeof *in);
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < n; i++) out[(size_t)to * (size_t)n + (size_t)i] = token(root, to, i) + 1;
    int error, wrong = 0, is_root = rank == root;
    if (!is_root) error = MPI_Scatter(NULL, 0, MPI_INT32_T, in, n, MPI_INT32_T, root, comm);
    else if (in_place) error = MPI_Scatter(out, n, MPI_INT32_T, MPI_IN_PLACE, 0, MPI_INT32_T, root, comm);
    else error = MPI_Scatter(out, n, MPI_INT32_T, in, n, MPI_INT32_T, root, comm);
    for (int i = 0; i < n && !(is_root && in_place); i++) wrong |= in[i] != token(root, rank, i) + 1;
    return error || wrong;
}

static int exchanges(MPI_Comm comm, int n, int in_place) {
    int32_t *to_send = in_place ? in : out;
    int wrong = 0;
    memset(in, 0, roomy() * sizeof *in);
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < n; i++) to_send[(size_t)to * (size_t)n + (size_t)i] = token(rank, to, i) + 1;
    int error = MPI_Alltoall(in_place ? MPI_IN_PLACE : (void *)out, in_place ? 0 : n, MPI_INT32_T, in, n,
                             MPI_INT32_T, comm);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < n; i++)
            wrong |= in[(size_t)r * (size_t)n + (size_t)i] != token(r, rank, i) + 1;
    return error || wrong;
}

/* Nobody leaves before the last has come: who comes last has told everybody before, by another way. */
static int waits(MPI_Comm comm) {
    int wrong = 0;
    for (int last = 0; last < ranks; last++) {
        int told = -1, error, is_there = 0;
        MPI_Request request;
        if (rank != last) MPI_Irecv(&told, 1, MPI_INT, last, 7, all, &request);
        if (rank == last) {
            usleep(2000);
            for (int r = 0; r < ranks; r++)
                if (r != last) MPI_Ssend(&last, 1, MPI_INT, r, 7, all);
        }
        error = MPI_Barrier(comm);
        if (rank != last) {
            /* A message that was sent synchronously had been matched when the last one came. */
            MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
            for (int i = 0; i < 1000 && !is_there; i++) MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
            wrong |= !is_there;
            if (!is_there) MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        wrong |= error != MPI_SUCCESS;
    }
    return wrong;
}

/* ---- the operations ---- */

static int n; /* numbers of 4 bytes in one block */

static void call_barrier(MPI_Comm c) { MPI_Barrier(c); }
static void call_bcast(MPI_Comm c) { MPI_Bcast(in, n, MPI_INT32_T, 0, c); }
static void call_reduce(MPI_Comm c) { MPI_Reduce(out, in, n, MPI_INT32_T, MPI_SUM, 0, c); }
static void call_allreduce(MPI_Comm c) { MPI_Allreduce(out, in, n, MPI_INT32_T, MPI_SUM, c); }
static void call_reduce_scatter(MPI_Comm c) { MPI_Reduce_scatter(out, in, counts, MPI_INT32_T, MPI_SUM, c); }
static void call_allgather(MPI_Comm c) { MPI_Allgather(out, n, MPI_INT32_T, in, n, MPI_INT32_T, c); }
static void call_alltoall(MPI_Comm c) { MPI_Alltoall(out, n, MPI_INT32_T, in, n, MPI_INT32_T, c); }
static void call_gather(MPI_Comm c) { MPI_Gather(out, n, MPI_INT32_T, in, n, MPI_INT32_T, 0, c); }
static void call_scatter(MPI_Comm c) { MPI_Scatter(out, n, MPI_INT32_T, in, n, MPI_INT32_T, 0, c); }

static int case_barrier(MPI_Comm c, int k) { return k ? -1 : waits(c); }
static int case_bcast(MPI_Comm c, int k) {
    static const int lengths[] = {1, 2, 63, 1000, 30001};
    int last = ranks - 1;
    if (k < 10) return broadcasts(c, lengths[k % 5], k < 5 ? 0 : last, 0);
    return k < 12 ? broadcasts(c, 64, k == 10 ? 0 : last, 1) : -1;
}
static int case_reduce(MPI_Comm c, int k) {
    static const int lengths[] = {1, 2, 63, 1000, 30001};
    return k < 10 ? reduces(c, lengths[k % 5], k < 5 ? 0 : ranks - 1, k % 2, 0) : -1;
}
static int case_allreduce(MPI_Comm c, int k) {
    static const int lengths[] = {1, 2, 63, 1000, 30001};
    return k < 10 ? reduces(c, lengths[k % 5], 0, k < 5, 1) : -1;
}
static int case_reduce_scatter(MPI_Comm c, int k) {
    static const int lengths[] = {1, 2, 63, 1000, 30001};
    return k < 10 ? scatters_sums(c, lengths[k % 5], k < 5) : -1;
}
static int case_allgather(MPI_Comm c, int k) {
    static const int lengths[] = {1, 63, 1000, 30001};
    return k < 8 ? gathers(c, lengths[k % 4], 0, k < 4, 1) : -1;
}
static int case_alltoall(MPI_Comm c, int k) {
    static const int lengths[] = {1, 63, 1000, 30001};
    return k < 8 ? exchanges(c, lengths[k % 4], k < 4) : -1;
}
static int case_gather(MPI_Comm c, int k) {
    static const int lengths[] = {1, 63, 1000, 30001};
    return k < 16 ? gathers(c, lengths[k % 4], k < 8 ? 0 : ranks - 1, k & 4, 0) : -1;
}
static int case_scatter(MPI_Comm c, int k) {
    static const int lengths[] = {1, 63, 1000, 30001};
    return k < 16 ? scatters(c, lengths[k % 4], k < 8 ? 0 : ranks - 1, k & 4) : -1;
}

static const struct operation {
    const char *name;
    void (*call)(MPI_Comm);
    int (*judge)(MPI_Comm, int); /* -1 behind the last case */
} operations[] = {
    {"barrier", call_barrier, case_barrier},
    {"bcast", call_bcast, case_bcast},
    {"reduce", call_reduce, case_reduce},
    {"allreduce", call_allreduce, case_allreduce},
    {"reduce_scatter", call_reduce_scatter, case_reduce_scatter},
    {"allgather", call_allgather, case_allgather},
    {"alltoall", call_alltoall, case_alltoall},
    {"gather", call_gather, case_gather},
    {"scatter", call_scatter, case_scatter},
};

struct algorithm {
    int id;
    int value;      /* of the variable that chooses it */
    char name[64];
    MPI_Comm comm;
    double ns[ROUNDS_MAX];
};

/* ---- choosing by MPI_T ---- */

static MPI_T_cvar_handle knob;
static MPI_T_enum names;

/* MPICH's names, or NULL: Open MPI tells its own. */
static const char *mpichs_names;
/* MPICH's variables are numbers to MPI_T, which differ from version to version, and names in the environment alone. */
enum { NAMES_MAX = 64 };
static struct { char operation[32], name[64]; int id, value; } mpichs[NAMES_MAX];
static int mpichs_count;

static void variable(char *name, size_t room, const char *operation) {
    const char *form = mpichs_names ? "MPIR_CVAR_%s_INTRA_ALGORITHM" : "coll_tuned_%s_algorithm";
    snprintf(name, room, form, operation);
    for (char *at = name; mpichs_names && *at; at++)
        if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 'a' + 'A');
}

static int find_knob(const char *operation) {
    char name[96];
    int index, len = 0, len_of_text = 0, verbosity, bind, scope, count = 0;
    MPI_Datatype type;
    variable(name, sizeof name, operation);
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return 0;
    MPI_T_cvar_get_info(index, NULL, &len, &verbosity, &type, &names, NULL, &len_of_text, &bind, &scope);
    if (type != MPI_INT || (!mpichs_names && names == MPI_T_ENUM_NULL)) return 0;
    if (MPI_T_cvar_handle_alloc(index, NULL, &knob, &count) != MPI_SUCCESS || count != 1) return 0;
    return 1;
}

/* What MPICH makes of a name in the environment: another process, which says it, as this one reads it once. */
static int tell_value(const char *operation) {
    int provided, value;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS || !find_knob(operation)) return 1;
    if (MPI_T_cvar_read(knob, &value) != MPI_SUCCESS) return 1;
    printf("value %d\n", value);
    return 0;
}

static int value_of(const char *operation, const char *name) {
    char set[96], line[256], told[128];
    int value = -1;
    variable(set, sizeof set, operation);
    snprintf(line, sizeof line, "%s=%s \"$WIGLAF_SELF\" --value %s 2>/dev/null", set, name, operation);
    FILE *from = popen(line, "r");
    while (from && fgets(told, sizeof told, from)) sscanf(told, "value %d", &value);
    if (from) pclose(from);
    return value;
}

/* Before MPI is up, as a process that has begun with a network does not fork. Those that this version has not are left
 * out. */
static void find_values(const char *program) {
    char *list = strdup(mpichs_names), *rest = list;
    if (setenv("WIGLAF_SELF", program, 1)) fail("no memory");
    for (char *part; (part = strsep(&rest, ";"));) {
        char *of = strsep(&part, ":");
        int id = 0;
        for (char *name; part && (name = strsep(&part, ","));) {
            int value = value_of(of, name);
            id++;
            if (value < 1 || mpichs_count == NAMES_MAX) continue;
            snprintf(mpichs[mpichs_count].operation, sizeof mpichs->operation, "%s", of);
            snprintf(mpichs[mpichs_count].name, sizeof mpichs->name, "%s", name);
            mpichs[mpichs_count].id = id;
            mpichs[mpichs_count++].value = value;
        }
    }
    free(list);
}

/* The i-th algorithm of an operation, the own choice first; 0 where there is none. */
static int algorithm(const char *operation, int i, struct algorithm *one) {
    int room = sizeof one->name;
    if (!mpichs_names) {
        int items = 0, len = 0;
        MPI_T_enum_get_info(names, &items, NULL, &len);
        if (i >= items) return 0;
        MPI_T_enum_get_item(names, i, &one->id, one->name, &room);
        one->value = one->id;
        return 1;
    }
    one->id = one->value = 0;
    snprintf(one->name, sizeof one->name, "auto");
    for (int n = 0; n < mpichs_count && i > 0; n++) {
        if (strcmp(mpichs[n].operation, operation) || --i > 0) continue;
        one->id = mpichs[n].id;
        one->value = mpichs[n].value;
        snprintf(one->name, sizeof one->name, "%s", mpichs[n].name);
    }
    return i == 0;
}

static const struct algorithm own_choice;
static void choose(const struct algorithm *one) { MPI_T_cvar_write(knob, &one->value); }

/* The communicator keeps the algorithm that was set when it was made; coll/han makes its own ones of it when it is
 * called first, so it stays set until then. */
static MPI_Comm with(const struct algorithm *one) {
    MPI_Comm comm;
    choose(one);
    MPI_Comm_dup(all, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

static void impatient(int signal) {
    (void)signal;
    static const char text[] = "wiglaf-bench: an algorithm does not come back\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(5);

    _exit(4);
}

/* Which cases an algorithm fails, a bit each, on any rank. */
static uint32_t failed_cases(const struct operation *op, MPI_Comm comm, uint32_t but) {
    uint32_t failed = 0;
    for (int k = 0; k < CASES_MAX; k++) {
        if (but >> k & 1) continue;
        int wrong = op->judge(comm, k), anywhere;
        if (wrong < 0) break;
        MPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_LOR, all);
        if (!anywhere) continue;
        failed |= 1u << k;
        /* Messages of one that failed may still be under way. */
        break;
    }
    return failed;
}

static int is_left_out(const char *list, const char *operation, int id) {
    char word[96];
    snprintf(word, sizeof word, "%s:%d", operation, id);
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || !at[len])) return 1;
    return 0;
}

static int gather_algorithms(const struct operation *op, const char *left_out, struct algorithm *found) {
    int count = 0;
    uint32_t own_fails = 0;
    for (int i = 0; count < ALGORITHMS_MAX && algorithm(op->name, i, &found[count]); i++) {
        struct algorithm *one = &found[count];
        if (is_left_out(left_out, op->name, one->id)) continue;
        if (rank == 0) {
            printf("{\"trying\":\"%s\",\"algorithm\":%d,\"name\":\"%s\"}\n", op->name, one->id, one->name);
            fflush(stdout);
        }
        alarm(PATIENCE_S);
        one->comm = with(one);
        uint32_t fails = failed_cases(op, one->comm, own_fails);
        if (one->id == 0) {
            while (fails) {
                own_fails |= fails;
                one->comm = with(one);
                fails = failed_cases(op, one->comm, own_fails);
            }
        }
        alarm(0);
        if (fails) {
            if (rank == 0)
                printf("{\"wrong\":\"%s\",\"algorithm\":%d,\"name\":\"%s\",\"case\":%d}\n", op->name, one->id,
                       one->name, __builtin_ctz(fails));
            continue;
        }
        count++;
    }
    choose(&own_choice);
    return count;
}

/* ---- measuring ---- */

static double slowest_mean(const struct operation *op, MPI_Comm comm, int calls) {
    int64_t *own = need((size_t)calls * sizeof *own), *slowest = need((size_t)calls * sizeof *slowest);
    double sum = 0;
    for (int i = 0; i < calls; i++) {
        MPI_Barrier(all);
        int64_t begin = now_ns();
        op->call(comm);
        own[i] = now_ns() - begin;
    }
    MPI_Allreduce(own, slowest, calls, MPI_INT64_T, MPI_MAX, all);
    for (int i = 0; i < calls; i++) sum += (double)slowest[i];
    free(own);
    free(slowest);
    return sum / calls;
}

static double timed(const struct operation *op, const struct algorithm *one, int calls) {
    choose(one);
    double ns = slowest_mean(op, one->comm, calls);
    choose(&own_choice);
    return ns;
}

static void cell(const struct operation *op, long len, int64_t budget_ns, int rounds, struct algorithm *found,
                 int count) {
    n = (int)(len / (long)sizeof *out);
    for (int r = 0; r < ranks; r++) counts[r] = n / ranks + (r < n % ranks);
    memset(out, 0, roomy() * sizeof *out);
    memset(in, 0, roomy() * sizeof *in);
    for (int a = 0; a < count; a++) timed(op, &found[a], WARM_UP);
    double fit = (double)budget_ns / timed(op, &found[0], CALLS_MIN);
    int calls = fit < CALLS_MIN ? CALLS_MIN : fit > CALLS_MAX ? CALLS_MAX : (int)fit;
    /* In turns, and each round begins with another: none always comes behind the same one. */
    for (int round = 0; round < rounds; round++)
        for (int turn = 0; turn < count; turn++) {
            struct algorithm *one = &found[(turn + round) % count];
            one->ns[round] = timed(op, one, calls);
        }
    for (int a = 0; a < count && rank == 0; a++) {
        printf("{\"operation\":\"%s\",\"len\":%ld,\"ranks\":%d,\"algorithm\":%d,\"name\":\"%s\",\"ns\":[", op->name,
               len, ranks, found[a].id, found[a].name);
        for (int round = 0; round < rounds; round++) printf("%s%.0f", round ? "," : "", found[a].ns[round]);
        puts("]}");
    }
    fflush(stdout);
}

static void measure(const struct operation *op, const char *lengths, int64_t budget_ns, int rounds,
                    const char *left_out) {
    static struct algorithm found[ALGORITHMS_MAX];
    if (!find_knob(op->name)) {
        if (rank == 0) printf("{\"without\":\"%s\"}\n", op->name);
        return;
    }
    int count = gather_algorithms(op, left_out, found);
    if (count && found[0].id == 0 && count > 1) {
        for (const char *rest = lengths; rest;) {
            char text[32] = "", *end = strchr(rest, ',');
            size_t len = end ? (size_t)(end - rest) : strlen(rest);
            if (len >= sizeof text) fail("bad length");
            memcpy(text, rest, len);
            cell(op, number(text, (long)sizeof *out, (long)sizeof *out * FAR), budget_ns, rounds, found, count);
            rest = end && op->call != call_barrier ? end + 1 : NULL;
        }
    }
    for (int a = 0; a < count; a++) MPI_Comm_free(&found[a].comm);
    MPI_T_cvar_handle_free(&knob);
}

int main(int argc, char **argv) {
    int provided;
    if (argc == 3 && !strcmp(argv[1], "--value")) {
        mpichs_names = "";
        return tell_value(argv[2]);
    }
    if (argc == 7 && strcmp(argv[6], "-")) {
        mpichs_names = argv[6];
        find_values(argv[0]);
    }
    MPI_Init(&argc, &argv);
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) fail("this MPI has no MPI_T");
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    if (argc != 7 || ranks < 2)
        fail("usage: algorithms BUDGET_MS ROUNDS OPERATIONS LENGTHS LEFT_OUT NAMES, on two ranks or more");
    signal(SIGALRM, impatient);
    int64_t budget_ns = number(argv[1], 1, 100000) * 1000000;
    int rounds = (int)number(argv[2], 1, ROUNDS_MAX);
    MPI_Type_contiguous(2, MPI_UINT32_T, &step_type);
    MPI_Type_commit(&step_type);
    MPI_Op_create(compose, 0, &then);
    counts = need((size_t)ranks * sizeof *counts);
    places = need((size_t)ranks * sizeof *places);
    out = need(roomy() * sizeof *out);
    in = need(roomy() * sizeof *in);
    for (char *name = strtok(argv[3], ","); name; name = strtok(NULL, ",")) {
        size_t i = 0, known = sizeof operations / sizeof *operations;
        while (i < known && strcmp(operations[i].name, name)) i++;
        if (i == known) fail("no such operation");
        measure(&operations[i], argv[4], budget_ns, rounds, argv[5]);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
