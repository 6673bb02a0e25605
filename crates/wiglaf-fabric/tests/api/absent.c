/* Messages of an application that has gone to do other things: it posts its sends, and calls the
 * library no more until they have arrived. */
#include "side.h"

#include <time.h>

/* A hang becomes a failure after so long. */
static const int patience_s = 60;
enum { LENGTH_MAX = 1 << 20, COUNT_MAX = 8 };
static unsigned char out[COUNT_MAX][LENGTH_MAX], in[COUNT_MAX][LENGTH_MAX];

/* The next completion of that side alone. */
static void complete(struct side *side)
{
    struct fi_cq_tagged_entry entry;
    time_t until = time(NULL) + patience_s;
    ssize_t n;
    while ((n = fi_cq_read(side->cq, &entry, 1)) == -FI_EAGAIN) CHECK(time(NULL) < until);
    GIVES(1, n);
}

/* Long enough for the provider's own thread, which has nothing to do, to sleep. */
static void rest(void)
{
    struct timespec pause = {.tv_nsec = 900 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

/* `count` messages of `len` bytes, more than go out at once. With `rested`, nothing has happened for
 * long before they are sent; with `tarry`, the receiver comes when the sender has long been silent. */
static void absent(size_t count, size_t len, int rested, int tarry)
{
    struct side a, b;
    open_side(&a, FI_WAIT_NONE);
    open_side(&b, FI_WAIT_NONE);
    introduce(&a, &b);
    if (rested) rest();
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < len; j++) out[i][j] = (unsigned char)(i * 31 + j * 7 + j / 251);
        memset(in[i], 0, len);
        GIVES(0, fi_tsend(a.ep, out[i], len, NULL, a.other, i, NULL));
    }
    if (tarry) rest();
    for (size_t i = 0; i < count; i++) {
        GIVES(0, fi_trecv(b.ep, in[i], len, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
    }
    for (size_t i = 0; i < count; i++) complete(&b);
    for (size_t i = 0; i < count; i++) {
        CHECK(memcmp(in[i], out[i], len) == 0);
        complete(&a);
    }
    close_side(&a);
    close_side(&b);
}

int main(void)
{
    open_domain(FI_MSG | FI_TAGGED);
    for (int way = 0; way < 4; way++) {
        int rested = way / 2, tarry = way % 2;
        absent(8, 60000, rested, tarry);   /* more datagrams than a window has */
        absent(1, 1 << 20, rested, tarry); /* announced, to be pulled */
        absent(1, 8, rested, tarry);
    }
    close_domain();
    puts("passed");
    return 0;
}
