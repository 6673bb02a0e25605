/* Attaches, as often as it is told, through commands that end without a word.
 * Usage: refused TIMES. */
#include <stdio.h>
#include <stdlib.h>

#include "wiglaf_files.h"

int main(int argc, char **argv) {
    if (argc != 2 || fsinit() != 0) return 2;
    for (int times = atoi(argv[1]); times > 0; times--) {
        if (fsattach("elsewhere") >= 0) return 3;
    }
    printf("refused\n");
    return fsend() == 0 ? 0 : 4;
}
