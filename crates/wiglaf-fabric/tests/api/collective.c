/* Collective operations among endpoints of one process: results, orders of arrival, several
 * operations and groups at a time, and what is refused. */
#include "group.h"

static struct member members[MEMBERS_MAX];
static struct op ops[MEMBERS_MAX];

static void await(struct member *all, struct op *awaited, size_t op_count)
{
    for (size_t left = 1; left;) {
        progress(&all[0]);
        left = 0;
        for (size_t i = 0; i < op_count; i++)
            left += !awaited[i].ended;
    }
    for (size_t i = 0; i < op_count; i++) {
        CHECK(!awaited[i].err);
        CHECK(awaited[i].flags & FI_COLLECTIVE);
    }
    memset(awaited, 0, op_count * sizeof *awaited);
}

static void await_all(size_t count)
{
    await(members, ops, count);
}

/* Event queues only are read: that moves data, too. */
static void await_joins(struct member *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct fi_eq_entry entry;
        uint32_t event = 0;
        ssize_t len;
        while ((len = fi_eq_read(all[i].eq, &event, &entry, sizeof entry, 0)) == -FI_EAGAIN)
            for (size_t j = 0; j < count; j++)
                if (j != i)
                    CHECK(fi_eq_read(all[j].eq, &event, NULL, 0, FI_PEEK) <= 0);
        CHECK(len == sizeof entry && event == FI_JOIN_COMPLETE);
        CHECK(entry.fid == &all[i].mc->fid && entry.context == &all[i]);
        CHECK(fi_mc_addr(all[i].mc) != FI_ADDR_NOTAVAIL);
    }
}

static void leave(struct member *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        GIVES(0, fi_close(&all[i].mc->fid));
        GIVES(0, fi_close(&all[i].set->fid));
    }
}

static uint64_t element(size_t member, size_t i)
{
    return 1000000 * (member + 1) + i;
}

/* A vector of `len` elements for each member, and room for as many. */
struct vectors {
    uint64_t *in[MEMBERS_MAX], *out[MEMBERS_MAX];
};

static struct vectors vectors(size_t count, size_t len)
{
    struct vectors v;
    for (size_t m = 0; m < count; m++) {
        v.in[m] = calloc(len + 1, sizeof *v.in[m]);
        v.out[m] = calloc(len + 1, sizeof *v.out[m]);
        for (size_t i = 0; i < len; i++)
            v.in[m][i] = element(m, i);
        v.out[m][len] = 0x5a5a; /* not to be touched */
    }
    return v;
}

static void release(struct vectors *v, size_t count, size_t len)
{
    for (size_t m = 0; m < count; m++) {
        CHECK(v->out[m][len] == 0x5a5a);
        free(v->in[m]);
        free(v->out[m]);
    }
}

static void barrier(size_t count)
{
    for (size_t m = 0; m < count; m++) {
        /* Nobody gets through before the last has come. */
        for (size_t i = 0; i < 200; i++)
            progress(&members[i % count]);
        for (size_t i = 0; i < m; i++)
            CHECK(!ops[i].ended);
        GIVES(0, m % 2 ? fi_barrier(members[m].ep, fi_mc_addr(members[m].mc), &ops[m])
                       : fi_barrier2(members[m].ep, fi_mc_addr(members[m].mc), FI_COMPLETION,
                                     &ops[m]));
    }
    await_all(count);
}

static void reductions(size_t count, size_t len, size_t root)
{
    struct vectors v = vectors(count, len * count);
    uint64_t sum;
    for (size_t m = count; m-- > 0;) /* the last comes first */
        GIVES(0, fi_allreduce(members[m].ep, v.in[m], len, NULL, v.out[m], NULL,
                              fi_mc_addr(members[m].mc), FI_UINT64, FI_SUM, 0, &ops[m]));
    await_all(count);
    for (size_t i = 0; i < len; i++) {
        sum = 0;
        for (size_t m = 0; m < count; m++)
            sum += element(m, i);
        for (size_t m = 0; m < count; m++)
            CHECK(v.out[m][i] == sum);
    }
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_reduce(members[m].ep, v.in[m], len, NULL, v.out[m], NULL,
                           fi_mc_addr(members[m].mc), root, FI_UINT64, FI_MAX, 0, &ops[m]));
    await_all(count);
    for (size_t i = 0; i < len; i++)
        CHECK(v.out[root][i] == element(count - 1, i));
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_reduce_scatter(members[m].ep, v.in[m], len, NULL, v.out[m], NULL,
                                   fi_mc_addr(members[m].mc), FI_UINT64, FI_SUM, 0, &ops[m]));
    await_all(count);
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < len; i++) {
            sum = 0;
            for (size_t other = 0; other < count; other++)
                sum += element(other, m * len + i);
            CHECK(v.out[m][i] == sum);
        }
    release(&v, count, len * count);
}

static void movements(size_t count, size_t len, size_t root)
{
    size_t whole = len * count;
    struct vectors v = vectors(count, whole);
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_broadcast(members[m].ep, m == root ? v.in[m] : v.out[m], len, NULL,
                              fi_mc_addr(members[m].mc), root, FI_UINT64, 0, &ops[m]));
    await_all(count);
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < len; i++)
            CHECK(m == root || v.out[m][i] == element(root, i));
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_allgather(members[m].ep, v.in[m], len, NULL, v.out[m], NULL,
                              fi_mc_addr(members[m].mc), FI_UINT64, 0, &ops[m]));
    await_all(count);
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < whole; i++)
            CHECK(v.out[m][i] == element(i / len, i % len));
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_alltoall(members[m].ep, v.in[m], len, NULL, v.out[m], NULL,
                             fi_mc_addr(members[m].mc), FI_UINT64, 0, &ops[m]));
    await_all(count);
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < whole; i++)
            CHECK(v.out[m][i] == element(i / len, m * len + i % len));
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_scatter(members[m].ep, m == root ? v.in[m] : NULL, len, NULL, v.out[m], NULL,
                            fi_mc_addr(members[m].mc), root, FI_UINT64, 0, &ops[m]));
    await_all(count);
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < len; i++)
            CHECK(v.out[m][i] == element(root, m * len + i));
    for (size_t m = 0; m < count; m++)
        GIVES(0, fi_gather(members[m].ep, v.in[m], len, NULL, m == root ? v.out[m] : NULL, NULL,
                           fi_mc_addr(members[m].mc), root, FI_UINT64, 0, &ops[m]));
    await_all(count);
    for (size_t i = 0; i < whole; i++)
        CHECK(v.out[root][i] == element(i / len, i % len));
    release(&v, count, whole);
}

static void results(void)
{
    size_t lens[] = {1, 5, 20000};
    for (size_t count = 1; count <= MEMBERS_MAX; count++) {
        for (size_t m = 0; m < count; m++)
            begin_join(&members[m], 0, count, 0);
        await_joins(members, count);
        barrier(count);
        for (size_t n = 0; n < 3; n++) {
            reductions(count, lens[n], count - 1);
            movements(count, lens[n], n == 0 ? 0 : count - 1);
        }
        leave(members, count);
    }
}

/* Receives of anything, from anybody, do not see any of it. */
static void apart_from_messages(void)
{
    struct op received[4][2] = {0};
    uint64_t room[4][2];
    for (size_t m = 0; m < 4; m++) {
        begin_join(&members[m], 0, 4, 0);
        GIVES(0, fi_recv(members[m].ep, &room[m][0], 8, NULL, FI_ADDR_UNSPEC, &received[m][0]));
        GIVES(0, fi_trecv(members[m].ep, &room[m][1], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull,
                          &received[m][1]));
    }
    await_joins(members, 4);
    reductions(4, 3, 0);
    movements(4, 3, 0);
    for (size_t m = 0; m < 4; m++)
        for (size_t i = 0; i < 2; i++) {
            CHECK(!received[m][i].ended);
            GIVES(0, fi_cancel(&members[m].ep->fid, &received[m][i]));
            while (!received[m][i].ended)
                progress(&members[m]);
            CHECK(received[m][i].err == FI_ECANCELED);
        }
    leave(members, 4);
}

#define OUTSTANDING 40

/* Many operations at once in two groups, begun by each member in one order but at another time. */
static void many_at_once(void)
{
    static struct op many[5][2][OUTSTANDING];
    static uint64_t in[5][2][OUTSTANDING], out[5][2][OUTSTANDING];
    struct member second[5];
    memcpy(second, members, sizeof second);
    for (size_t m = 0; m < 5; m++)
        begin_join(&members[m], 0, 5, 0);
    for (size_t m = 5; m-- > 0;) /* the same members again: another group */
        begin_join(&second[m], 0, 5, FI_ADDR_NOTAVAIL);
    for (size_t joined = 0; joined < 10;)
        for (size_t m = 0; m < 5; m++) {
            uint32_t event;
            if (fi_eq_read(members[m].eq, &event, NULL, 0, 0) == 0)
                joined++;
        }
    for (size_t m = 0; m < 5; m++) {
        for (size_t i = 0; i < 2 * OUTSTANDING; i++) {
            size_t g = (i + m) % 2, n = i / 2;
            struct fid_mc *mc = g ? second[m].mc : members[m].mc;
            in[m][g][n] = 1ull << (10 * m) << g;
            GIVES(0, fi_allreduce(members[m].ep, &in[m][g][n], 1, NULL, &out[m][g][n], NULL,
                                  fi_mc_addr(mc), FI_UINT64, FI_BOR, 0, &many[m][g][n]));
        }
        progress(&members[m]);
    }
    await(members, &many[0][0][0], 5 * 2 * OUTSTANDING);
    for (size_t m = 0; m < 5; m++)
        for (size_t i = 0; i < OUTSTANDING; i++) {
            CHECK(out[m][0][i] == 0x10040100401ull);
            CHECK(out[m][1][i] == 0x20080200802ull);
        }
    /* More than there may be at a time: try again. */
    for (size_t m = 0, i = 0; m == 0; i++) {
        static struct op waiting[300];
        ssize_t posted = fi_barrier(members[0].ep, fi_mc_addr(members[0].mc), &waiting[i]);
        if (posted == -FI_EAGAIN) {
            CHECK(i >= 64);
            GIVES(0, fi_close(&members[0].mc->fid)); /* gives them up */
            for (size_t n = 0; n < i; n++) {
                while (!waiting[n].ended)
                    progress(&members[0]);
                CHECK(waiting[n].err == FI_ECANCELED);
            }
            m = 1;
        } else {
            CHECK(posted == 0 && i + 1 < 300);
        }
    }
    /* The others hear of it, though they begin only now. */
    for (size_t m = 1; m < 5; m++) {
        ssize_t posted = fi_barrier(members[m].ep, fi_mc_addr(members[m].mc), &ops[m]);
        CHECK(posted == 0 || posted == -FI_ECONNRESET);
        ops[m].ended = posted != 0;
    }
    for (size_t m = 1; m < 5; m++) {
        while (!ops[m].ended)
            progress(&members[0]);
        CHECK(ops[m].err == 0 || ops[m].err == FI_ECONNRESET);
        GIVES(-FI_ECONNRESET, fi_barrier(members[m].ep, fi_mc_addr(members[m].mc), &ops[m]));
        GIVES(0, fi_close(&members[m].mc->fid));
    }
    memset(ops, 0, sizeof ops);
    for (size_t m = 0; m < 5; m++)
        GIVES(0, fi_close(&members[m].set->fid));
    /* The other group is well. */
    for (size_t m = 0; m < 5; m++)
        GIVES(0, fi_barrier(members[m].ep, fi_mc_addr(second[m].mc), &ops[m]));
    await_all(5);
    leave(second, 5);
}

/* The order of a set is that of the ranks; sets are changed by sets; groups lie in groups. */
static void sets(void)
{
    struct fi_av_set_attr empty = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    struct fi_av_set_attr odd = {.start_addr = 1, .end_addr = 1000, .stride = 2};
    struct fi_av_set_attr all = {.flags = FI_UNIVERSE};
    struct member whole[MEMBERS_MAX];
    uint64_t in[MEMBERS_MAX], out[MEMBERS_MAX][MEMBERS_MAX];
    memcpy(whole, members, sizeof whole);
    for (size_t m = 0; m < MEMBERS_MAX; m++) {
        GIVES(0, fi_av_set(members[m].av, &all, &whole[m].set, NULL));
        GIVES(0, fi_join_collective(members[m].ep, FI_ADDR_NOTAVAIL, whole[m].set,
                                    FI_SEND | FI_RECV, &whole[m].mc, &whole[m]));
    }
    await_joins(whole, MEMBERS_MAX);
    /* 7, 3, then 5 and 1 of the odd ones */
    for (size_t m = 1; m < 8; m += 2) {
        struct fid_av_set *odds;
        fi_addr_t address = fi_mc_addr(whole[m].mc);
        GIVES(0, fi_av_set(members[m].av, &empty, &members[m].set, NULL));
        GIVES(0, fi_av_set(members[m].av, &odd, &odds, NULL));
        for (fi_addr_t i = 8; i >= 2; i--)
            GIVES(0, fi_av_set_insert(members[m].set, i));
        GIVES(-FI_EINVAL, fi_av_set_insert(members[m].set, 8));
        GIVES(-FI_EINVAL, fi_av_set_insert(members[m].set, MEMBERS_MAX));
        GIVES(0, fi_av_set_remove(members[m].set, 5));
        GIVES(-FI_EINVAL, fi_av_set_remove(members[m].set, 5));
        GIVES(0, fi_av_set_intersect(members[m].set, odds));
        GIVES(0, fi_av_set_insert(members[m].set, 5));
        GIVES(0, fi_av_set_union(members[m].set, odds));
        GIVES(0, fi_join_collective(members[m].ep, address, members[m].set, 0, &members[m].mc,
                                    &members[m]));
        GIVES(0, fi_close(&odds->fid)); /* groups do not need their sets */
    }
    struct member four[] = {members[7], members[3], members[5], members[1]};
    for (size_t i = 0; i < 4; i++) {
        struct fi_eq_entry entry;
        uint32_t event;
        while (fi_eq_sread(four[i].eq, &event, &entry, sizeof entry, 10, 0) == -FI_EAGAIN)
            progress(&four[0]);
        CHECK(event == FI_JOIN_COMPLETE && entry.fid == &four[i].mc->fid);
    }
    for (size_t i = 0; i < 4; i++) {
        in[i] = i;
        GIVES(0, fi_allgather(four[i].ep, &in[i], 1, NULL, out[i], NULL, fi_mc_addr(four[i].mc),
                              FI_UINT64, 0, &ops[i]));
    }
    await(four, ops, 4);
    for (size_t i = 0; i < 4; i++)
        CHECK(out[i][0] == 0 && out[i][1] == 1 && out[i][2] == 2 && out[i][3] == 3);
    /* A root is an address of the vector, not a rank. */
    for (size_t i = 0; i < 4; i++)
        GIVES(0, fi_broadcast(four[i].ep, &in[i], 1, NULL, fi_mc_addr(four[i].mc), 5, FI_UINT64, 0,
                              &ops[i]));
    await(four, ops, 4);
    for (size_t i = 0; i < 4; i++)
        CHECK(in[i] == 2);
    GIVES(-FI_EINVAL, fi_broadcast(four[0].ep, &in[0], 1, NULL, fi_mc_addr(four[0].mc), 0,
                                   FI_UINT64, 0, &ops[0]));
    GIVES(0, fi_av_set_diff(four[0].set, whole[7].set));
    GIVES(-FI_EINVAL, fi_join_collective(four[0].ep, FI_ADDR_NOTAVAIL, four[0].set, 0,
                                         &members[0].mc, NULL)); /* empty: not in it */
    leave(four, 4);
    leave(whole, MEMBERS_MAX);
}

/* Every type with every function, as fi_query_atomic says. */
static void types(void)
{
    static char in[3][2][32], out[3][2][32];
    for (size_t m = 0; m < 3; m++)
        begin_join(&members[m], 0, 3, 0);
    await_joins(members, 3);
    size_t reduced = 0;
    for (enum fi_datatype type = FI_INT8; type <= FI_UINT128; type++)
        for (enum fi_op op = FI_MIN; op <= FI_BXOR; op++) {
            struct fi_collective_attr attr = {.op = op, .datatype = type};
            struct fi_atomic_attr atomic = {0};
            int offered = fi_query_collective(domain, FI_ALLREDUCE, &attr, 0);
            GIVES(offered, fi_query_atomic(domain, type, op, &atomic, 0));
            CHECK(offered || (attr.datatype_attr.size == atomic.size && attr.max_members >= 3));
            for (size_t m = 0; m < 3; m++) {
                memset(in[m], 0, sizeof in[m]);
                in[m][0][0] = in[m][1][0] = (char)(m + 1); /* little-endian: 1, 2, 3 */
                GIVES(offered, fi_allreduce(members[m].ep, in[m], 1, NULL, out[m], NULL,
                                            fi_mc_addr(members[m].mc), type, op, 0, &ops[m]));
            }
            if (offered)
                continue;
            await_all(3);
            int is_integer = type <= FI_UINT64 || type == FI_INT128 || type == FI_UINT128;
            int wanted[] = {1, 3, 6, 6, 1, 1, 3, 0, 1, 0}; /* min to bxor of 1, 2, 3 */
            for (size_t m = 0; m < 3; m++) {
                CHECK(!is_integer || out[m][0][0] == wanted[op]);
                CHECK(memcmp(out[0], out[m], sizeof out[0]) == 0);
            }
            reduced++;
        }
    CHECK(reduced == 10 * 10 + 2 * 7 + 2 * 5);
    leave(members, 3);
}

static void refusals(void)
{
    struct member *a = &members[0];
    struct fi_collective_attr query = {.op = FI_NOOP, .datatype = FI_VOID};
    struct fi_av_set_attr bad[] = {
        {.start_addr = 2, .end_addr = 1, .stride = 1},
        {.start_addr = 0, .end_addr = 1, .stride = 0},
        {.start_addr = 0, .end_addr = 5, .stride = 1, .count = 3},
    };
    struct fi_av_set_attr flags = {.flags = FI_SYMMETRIC}, key = {.comm_key_size = 8};
    struct fi_av_set_attr barriers = {.flags = FI_UNIVERSE | FI_BARRIER_SET};
    struct fid_av_set *set;
    struct fid_mc *mc;
    uint64_t in = 0, out;
    for (size_t i = 0; i < 3; i++)
        GIVES(-FI_EINVAL, fi_av_set(a->av, &bad[i], &set, NULL));
    GIVES(-FI_EBADFLAGS, fi_av_set(a->av, &flags, &set, NULL));
    GIVES(-FI_ENOSYS, fi_av_set(a->av, &key, &set, NULL));
    GIVES(-FI_EINVAL, fi_av_set(a->av, NULL, &set, NULL));

    begin_join(a, 0, 2, 0);
    GIVES(-FI_EOPBADSTATE, fi_barrier(a->ep, fi_mc_addr(a->mc), &ops[0]));
    begin_join(&members[1], 0, 2, 0);
    await_joins(members, 2);
    fi_addr_t group = fi_mc_addr(a->mc);
    GIVES(-FI_EINVAL, fi_barrier(a->ep, group + 1000, &ops[0]));
    GIVES(-FI_EINVAL, fi_barrier(a->ep, 0, &ops[0]));
    GIVES(-FI_EBADFLAGS, fi_barrier2(a->ep, group, FI_TRIGGER, &ops[0]));
    GIVES(-FI_EINVAL, fi_broadcast(a->ep, &in, 1, NULL, group, 7, FI_UINT64, 0, &ops[0]));
    GIVES(-FI_EINVAL, fi_broadcast(a->ep, &in, 1, NULL, group, 700, FI_UINT64, 0, &ops[0]));
    GIVES(-FI_EINVAL, fi_broadcast(a->ep, NULL, 1, NULL, group, 0, FI_UINT64, 0, &ops[0]));
    GIVES(-FI_EOPNOTSUPP, fi_broadcast(a->ep, &in, 1, NULL, group, 0, FI_VOID, 0, &ops[0]));
    GIVES(-FI_EINVAL, fi_allreduce(a->ep, &in, 1, NULL, NULL, NULL, group, FI_UINT64, FI_SUM, 0,
                                   &ops[0]));
    GIVES(-FI_EOPNOTSUPP, fi_allreduce(a->ep, &in, 1, NULL, &out, NULL, group, FI_LONG_DOUBLE,
                                       FI_SUM, 0, &ops[0]));
    GIVES(-FI_EOPNOTSUPP, fi_allreduce(a->ep, &in, 1, NULL, &out, NULL, group, FI_UINT64, FI_CSWAP,
                                       0, &ops[0]));
    GIVES(-FI_EMSGSIZE, fi_allreduce(a->ep, &in, 1ull << 40, NULL, &out, NULL, group, FI_UINT64,
                                     FI_SUM, 0, &ops[0]));
    GIVES(-FI_EMSGSIZE, fi_allreduce(a->ep, &in, 1ull << 62, NULL, &out, NULL, group, FI_UINT64,
                                     FI_SUM, 0, &ops[0]));
    GIVES(0, fi_query_collective(domain, FI_BARRIER, &query, 0));
    GIVES(-FI_EINVAL, fi_query_collective(domain, FI_BARRIER, &query, 1));
    GIVES(-FI_EOPNOTSUPP, fi_query_collective(domain, 99, &query, 0));
    GIVES(-FI_EOPNOTSUPP, fi_query_collective(domain, FI_BROADCAST, &query, 0));
    query.datatype = FI_LONG_DOUBLE;
    GIVES(0, fi_query_collective(domain, FI_BROADCAST, &query, 0));

    GIVES(-FI_EINVAL, fi_join_collective(a->ep, 12345, a->set, 0, &mc, NULL));
    GIVES(-FI_EBADFLAGS, fi_join_collective(a->ep, FI_ADDR_NOTAVAIL, a->set, FI_SEND, &mc, NULL));
    GIVES(-FI_EINVAL, fi_join_collective(a->ep, FI_ADDR_NOTAVAIL, members[1].set, 0, &mc, NULL));
    GIVES(-FI_ENOSYS, fi_join(a->ep, &group, 0, &mc, NULL));
    GIVES(0, fi_av_set(a->av, &barriers, &set, NULL));
    GIVES(-FI_EINVAL, fi_join_collective(a->ep, group, set, 0, &mc, NULL)); /* not within it */
    GIVES(-FI_EBUSY, fi_close(&a->av->fid));
    GIVES(-FI_EBUSY, fi_close(&a->ep->fid));
    GIVES(0, fi_close(&set->fid));
    leave(members, 2);

    barriers.flags = FI_BARRIER_SET;
    barriers.stride = 1; /* of the first alone */
    GIVES(0, fi_av_set(a->av, &barriers, &a->set, NULL));
    GIVES(0, fi_join_collective(a->ep, FI_ADDR_NOTAVAIL, a->set, 0, &a->mc, a));
    await_joins(a, 1);
    GIVES(-FI_EOPNOTSUPP, fi_allgather(a->ep, &in, 1, NULL, &out, NULL, fi_mc_addr(a->mc),
                                       FI_UINT64, 0, &ops[0]));
    barrier(1);
    leave(a, 1);
}

/* Two members disagree about the length: an error for both, and the end of their group. */
static void disagreement(void)
{
    uint64_t in[2][4] = {0}, out[2][4];
    for (size_t m = 0; m < 2; m++)
        begin_join(&members[m], 0, 2, 0);
    await_joins(members, 2);
    for (size_t m = 0; m < 2; m++)
        GIVES(0, fi_allreduce(members[m].ep, in[m], 3 + m, NULL, out[m], NULL,
                              fi_mc_addr(members[m].mc), FI_UINT64, FI_SUM, 0, &ops[m]));
    while (!ops[0].ended || !ops[1].ended)
        progress(&members[0]);
    CHECK(ops[0].err == FI_ETRUNC || ops[1].err == FI_ETRUNC);
    CHECK(ops[0].err && ops[1].err);
    memset(ops, 0, sizeof ops);
    leave(members, 2);
}

int main(void)
{
    open_domain(FI_MSG | FI_TAGGED | FI_COLLECTIVE);
    for (size_t m = 0; m < MEMBERS_MAX; m++)
        open_member(&members[m], m ? members[0].cq : NULL);
    for (size_t m = 0; m < MEMBERS_MAX; m++)
        for (size_t i = 0; i < MEMBERS_MAX; i++)
            GIVES(1, fi_av_insert(members[m].av, members[i].name, 1, NULL, 0, NULL));
    results();
    apart_from_messages();
    many_at_once();
    sets();
    types();
    refusals();
    disagreement();
    for (size_t m = 0; m < MEMBERS_MAX; m++)
        close_member(&members[m]);
    GIVES(0, fi_close(&members[0].cq->fid));
    close_domain();
    puts("passed");
    return 0;
}
