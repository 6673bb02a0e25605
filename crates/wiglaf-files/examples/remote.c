/* Writes a file on another node, reads it back, and shows what is refused:
 *
 *   wiglaf exec -w node1 -- ./remote node2 /scratch/example
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wiglaf_files.h"

static void need(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s: %s (errno %d)\n", what, fureason(), fuerrno());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s NODE PATH\n", argv[0]);
        return 2;
    }
    need(fsinit() == 0, "fsinit");
    NODE node = fsattach(argv[1]);
    need(node >= 0, "fsattach");

    int handle = ropen(node, argv[2], O_RDWR | O_CREAT | O_TRUNC);
    need(handle >= 0, "ropen");
    need(rfnode(handle) == node, "rfnode");

    enum { COUNT = 300000 };
    double *numbers = malloc(COUNT * sizeof *numbers), *back = malloc(COUNT * sizeof *back);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i * 0.5;
    need(rwrite(handle, numbers, COUNT * sizeof *numbers) == COUNT * sizeof *numbers, "rwrite");
    need(rfsync(handle) == 0, "rfsync");
    need(rlseek(handle, 0, SEEK_END) == COUNT * sizeof *numbers, "rlseek");

    /* Half of it by a read that goes on beside the other. */
    size_t half = COUNT / 2 * sizeof *back;
    int request = raread(handle, back, half, 0);
    need(request >= 0, "raread");
    need(rpread(handle, back + COUNT / 2, half, half) == (ssize_t)half, "rpread");
    need(rwait(request) == (ssize_t)half, "rwait");
    need(memcmp(numbers, back, COUNT * sizeof *back) == 0, "comparing");
    need(rclose(handle) == 0, "rclose");

    struct stat st;
    need(rstat(node, argv[2], &st) == 0, "rstat");
    printf("%s has %lld bytes on %s\n", argv[2], (long long)st.st_size, argv[1]);

    if (ropen(node, "/etc/passwd", O_RDONLY) < 0)
        printf("/etc/passwd: %s\n", fureason());
    if (rsize(node, "no-such-file") < 0)
        printf("no-such-file: %s\n", fureason());
    need(runlink(node, argv[2]) == 0, "runlink");
    need(fsdetach(node) == 0, "fsdetach");
    need(fsend() == 0, "fsend");
    return 0;
}
