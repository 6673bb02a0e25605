/* A daemon whose first thread has ended, so that the kernel shows it as a zombie, and another runs. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *stay(void *unused) {
    for (;;) pause();
    return unused;
}

int main(void) {
    pthread_t thread;
    if (fork() != 0) {
        for (;;) pause();
    }
    setsid();
    pthread_create(&thread, NULL, stay, NULL);
    puts("runs");
    fflush(stdout);
    pthread_exit(NULL);
}
