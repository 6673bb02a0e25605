/* Attaches while a timer interrupts every system call that waits.
 * Usage: signals. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "wiglaf_files.h"

static volatile sig_atomic_t ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

int main(void) {
    struct sigaction action;
    struct itimerval every = {{0, 20000}, {0, 20000}};
    NODE node;
    memset(&action, 0, sizeof action);
    action.sa_handler = tick;
    if (fsinit() != 0 || sigaction(SIGALRM, &action, NULL) != 0) return 2;
    setitimer(ITIMER_REAL, &every, NULL);
    node = fsattach("elsewhere");
    if (node < 0) {
        printf("%s\n", fureason());
        return 1;
    }
    printf("attached%s\n", ticks > 0 ? " between ticks" : "");
    return fsdetach(node) == 0 && fsend() == 0 ? 0 : 3;
}
