/* Every rank greets rank 0, which answers each. Build with
 * cc hello.c -lwiglaf, run with wiglaf run --mpi none -- ./a.out */
#include <stdio.h>
#include <wiglaf.h>

enum { GREET = 1, ANSWER = 2 };

static void greet(wiglaf *w, int source, uint64_t data, const void *text, size_t len, void *seen) {
    printf("rank 0: %.*s\n", (int)len, (const char *)text);
    wiglaf_send(w, source, ANSWER, data + 1, NULL, 0);
    ++*(int *)seen;
}

static void answer(wiglaf *w, int source, uint64_t data, const void *text, size_t len, void *seen) {
    (void)source, (void)text, (void)len;
    printf("rank %d: answered with %d\n", wiglaf_rank(w), (int)data);
    ++*(int *)seen;
}

int main(void) {
    int seen = 0;
    wiglaf *w = wiglaf_open();
    if (!w) return fprintf(stderr, "hello: %s\n", wiglaf_error()), 1;
    wiglaf_on(w, GREET, greet, &seen);
    wiglaf_on(w, ANSWER, answer, &seen);
    if (wiglaf_rank(w) > 0) {
        char text[64];
        int len = snprintf(text, sizeof text, "hello from rank %d", wiglaf_rank(w));
        wiglaf_send(w, 0, GREET, 41, text, (size_t)len);
    }
    int awaited = wiglaf_rank(w) == 0 ? wiglaf_size(w) - 1 : 1;
    while (seen < awaited) wiglaf_wait(w, 100);
    wiglaf_close(w);
    return 0;
}
