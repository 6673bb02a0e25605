/* Members in processes of their own, one of which is killed: every operation that it is missed in
 * ends with an error at all others, also at those that only wait for somebody who waits for it. And
 * two threads with a group each on one endpoint. */
#include "group.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 5
#define VICTIM 4

static struct member self;
static int rank;
static int names[PROCESSES][2]; /* pipes: to each process */
static int reports[2];          /* pipe: to the parent */

static void tell(char what)
{
    CHECK(write(reports[1], &what, 1) == 1);
}

static void hear(char what, size_t count)
{
    char heard;
    for (size_t i = 0; i < count; i++) {
        CHECK(read(reports[0], &heard, 1) == 1);
        CHECK(heard == what);
    }
}

static void join(struct member *m)
{
    struct fi_eq_entry entry;
    uint32_t event;
    begin_join(m, 0, PROCESSES, 0);
    while (fi_eq_sread(m->eq, &event, &entry, sizeof entry, -1, 0) == -FI_EAGAIN)
        ;
    CHECK(event == FI_JOIN_COMPLETE && entry.fid == &m->mc->fid);
}

static void await(struct op *op, int err)
{
    while (!op->ended)
        progress(&self);
    if (op->err != err) {
        fprintf(stderr, "rank %d: error %d in place of %d\n", rank, op->err, err);
        exit(1);
    }
    memset(op, 0, sizeof *op);
}

/* Takes what is there for whichever thread it is. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

static void *sums(void *arg)
{
    struct member *m = arg;
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t in = (uint64_t)rank + i, out = 0;
        struct op op = {0};
        GIVES(0, fi_allreduce(m->ep, &in, 1, NULL, &out, NULL, fi_mc_addr(m->mc), FI_UINT64,
                              FI_SUM, 0, &op));
        for (int ended = 0; !ended;) {
            pthread_mutex_lock(&reading);
            if (!op.ended)
                progress(m);
            ended = op.ended;
            pthread_mutex_unlock(&reading);
        }
        CHECK(!op.err && out == PROCESSES * i + PROCESSES * (PROCESSES - 1) / 2);
    }
    return NULL;
}

static void two_threads(void)
{
    struct member second = self;
    pthread_t thread;
    join(&second);
    CHECK(pthread_create(&thread, NULL, sums, &second) == 0);
    sums(&self);
    CHECK(pthread_join(thread, NULL) == 0);
    GIVES(0, fi_close(&second.mc->fid));
    GIVES(0, fi_close(&second.set->fid));
}

/* The parent kills the victim when all survivors wait. In the first round nobody sends anything to
 * the victim, so that only asking can tell that it is dead. */
static void loss(int round)
{
    static struct op ops[4];
    int count = round == 0 ? 1 : 3;
    static uint64_t in[PROCESSES], out[PROCESSES];
    fi_addr_t group = fi_mc_addr(self.mc);
    if (rank == VICTIM) {
        tell('w');
        for (;;)
            pause();
    }
    GIVES(0, fi_broadcast(self.ep, in, 1, NULL, group, VICTIM, FI_UINT64, 0, &ops[0]));
    if (round > 0) {
        GIVES(0, fi_allgather(self.ep, in, 1, NULL, out, NULL, group, FI_UINT64, 0, &ops[1]));
        GIVES(0, fi_barrier(self.ep, group, &ops[2]));
    }
    for (int i = 0; i < 1000; i++)
        progress(&self);
    for (int i = 0; i < count; i++)
        CHECK(!ops[i].ended);
    tell('w');
    for (int i = 0; i < count; i++)
        await(&ops[i], FI_ECONNRESET);
    GIVES(-FI_ECONNRESET, fi_barrier(self.ep, group, &ops[3]));
    tell('e');
}

static int member(int round)
{
    char all[PROCESSES][NAME_LEN];
    open_domain(FI_MSG | FI_COLLECTIVE);
    open_member(&self, NULL);
    for (int i = 0; i < PROCESSES; i++) {
        char name[1 + NAME_LEN] = {(char)rank};
        memcpy(name + 1, self.name, NAME_LEN);
        CHECK(write(names[i][1], name, sizeof name) == sizeof name);
    }
    for (int i = 0; i < PROCESSES; i++) {
        char name[1 + NAME_LEN];
        CHECK(read(names[rank][0], name, sizeof name) == sizeof name);
        memcpy(all[(int)name[0]], name + 1, NAME_LEN);
    }
    GIVES(PROCESSES, fi_av_insert(self.av, all, PROCESSES, NULL, 0, NULL));
    join(&self);
    if (round == 0)
        two_threads();
    loss(round);
    GIVES(0, fi_close(&self.mc->fid));
    GIVES(0, fi_close(&self.set->fid));
    close_member(&self);
    GIVES(0, fi_close(&self.cq->fid));
    close_domain();
    return 0;
}

static void run(int round)
{
    pid_t children[PROCESSES];
    CHECK(pipe(reports) == 0);
    for (int i = 0; i < PROCESSES; i++)
        CHECK(pipe(names[i]) == 0);
    for (rank = 0; rank < PROCESSES; rank++) {
        children[rank] = fork();
        CHECK(children[rank] >= 0);
        if (children[rank] == 0)
            exit(member(round));
    }
    CHECK(close(reports[1]) == 0);
    hear('w', PROCESSES);
    CHECK(kill(children[VICTIM], SIGKILL) == 0);
    hear('e', PROCESSES - 1);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        CHECK(i == VICTIM ? WIFSIGNALED(status) : status == 0);
        CHECK(close(names[i][0]) == 0 && close(names[i][1]) == 0);
    }
    CHECK(close(reports[0]) == 0);
}

int main(void)
{
    for (int round = 0; round < 2; round++)
        run(round);
    puts("passed");
    return 0;
}
