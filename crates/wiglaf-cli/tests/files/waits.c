/* Reads a remote file over and over until that fails: waits NODE PATH
 *
 * Prints `running` after the first reads, and when one failed `failed ERRNO TIME`, the time as
 * `date +%s.%N` has it. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "wiglaf_files.h"

int main(int argc, char **argv)
{
    enum { READS_FIRST = 100, LEN = 300000 };
    static char buffer[LEN];
    if (argc != 3 || fsinit() != 0)
        return 2;
    NODE node = fsattach(argv[1]);
    int handle = ropen(node, argv[2], O_RDWR | O_CREAT);
    if (node < 0 || handle < 0 || rwrite(handle, buffer, LEN) != LEN) {
        fprintf(stderr, "%s\n", fureason());
        return 1;
    }
    for (long reads = 0; rpread(handle, buffer, LEN, 0) >= 0; reads++) {
        if (reads == READS_FIRST) {
            puts("running");
            fflush(stdout);
        }
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("failed %d %lld.%09ld\n", fuerrno(), (long long)now.tv_sec, now.tv_nsec);
    fflush(stdout);
    return fsend() == -1 ? 0 : 3;
}
