/* What a daemon of an MPI is at its worst: its child has ended and is never reaped, and it waits
 * for a lock that nobody holds. */
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    int word = 0;
    if (fork() == 0) _exit(0);
    puts("runs");
    fflush(stdout);
    for (;;) syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL);
}
