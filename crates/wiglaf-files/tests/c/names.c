/* A name that does not fit is there for the next call: with room it is read.
 * Usage: names FOLDER. Prints the longest name that it found. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "wiglaf_files.h"

int main(int argc, char **argv) {
    char name[256], longest[256] = "";
    NODE node;
    int folder, got;
    if (argc != 2 || fsinit() != 0) return 2;
    node = fsattach("elsewhere");
    folder = ropendir(node, argv[1]);
    if (node < 0 || folder < 0) return 3;
    for (;;) {
        while ((got = rreaddir(folder, name, 10)) < 0) {
            if (errno != ERANGE) return 4;
            /* The same again, and again too long. */
            if (rreaddir(folder, name, 11) != -1 || errno != ERANGE) return 5;
            got = rreaddir(folder, name, sizeof name);
            if (got != 1) return 6;
            if (strlen(name) > strlen(longest)) strcpy(longest, name);
        }
        if (got == 0) break;
    }
    /* What was kept does not outlive a new beginning. */
    rrewinddir(folder);
    for (int names = 0; (got = rreaddir(folder, name, 10)) == 1 && names < 3; names++) {}
    if (got != -1) return 7;
    rrewinddir(folder);
    int names = 0;
    while (rreaddir(folder, name, sizeof name) == 1) names++;
    rclosedir(folder);
    printf("%s, %d names\n", longest, names);
    return fsend() == 0 ? 0 : 8;
}
