/* A program that knows no MPI and loads a plugin that does, out of sight of all else. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!plugin) {
        fprintf(stderr, "no plugin: %s\n", argc > 1 ? dlerror() : "name one");
        return 1;
    }
    int (*work)(void) = (int (*)(void))dlsym(plugin, "work");
    return work ? work() : 1;
}
