/* A piece that is nowhere fails a vectored read before anything is read.
 * Usage: vectors FILE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "wiglaf_files.h"

int main(int argc, char **argv) {
    char first[10], second[10];
    struct iovec good[] = {{first, 10}, {NULL, 0}, {second, 10}};
    struct iovec bad[] = {{first, 10}, {NULL, 10}};
    NODE node;
    int file;
    if (argc != 2 || fsinit() != 0) return 2;
    node = fsattach("elsewhere");
    file = ropenm(node, argv[1], O_RDWR | O_CREAT, 0600);
    if (node < 0 || file < 0) return 3;
    memcpy(first, "0123456789", 10);
    memcpy(second, "abcdefghij", 10);
    if (rwritev(file, good, 3) != 20 || rlseek(file, 0, SEEK_SET) != 0) return 4;
    if (rreadv(file, bad, 2) != -1 || errno != EFAULT) return 5;
    if (rwritev(file, bad, 2) != -1 || errno != EFAULT) return 6;
    if (rlseek(file, 0, SEEK_CUR) != 0) return 7;
    memset(first, 0, 10);
    memset(second, 0, 10);
    if (rreadv(file, good, 3) != 20) return 8;
    printf("%.10s%.10s\n", first, second);
    return rclose(file) == 0 && fsend() == 0 ? 0 : 9;
}
