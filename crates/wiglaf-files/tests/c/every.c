/* Every call of wiglaf_files.h, each with a look at what it did.
 * Usage: every FOLDER. The folder has a link `link` to a file `file` of 10 bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wiglaf_files.h"

static NODE node;
static struct stat st;

static void need(int ok, const char *what) {
    if (ok) return;
    printf("%s: %s (errno %d)\n", what, fureason(), fuerrno());
    exit(1);
}

/* Whether a call failed so, by all three ways to learn it. */
static int failed(int64_t result, int error) {
    return result == -1 && errno == error && fuerrno() == error && strcmp(fureason(), "") != 0;
}

static void nodes(void) {
    char name[10];
    need(fsattach("elsewhere") == node && fsdetach(node) == 0, "attaching again");
    need(fsnodename(node, name, sizeof name) == 0 && strcmp(name, "elsewhere") == 0, "fsnodename");
    need(failed(fsnodename(node, name, 9), ERANGE), "fsnodename without room");
}

static void names(void) {
    struct stat other;
    int handle;
    need(rstat(node, "link", &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 10, "rstat");
    need(st.st_mtim.tv_sec == 1000000000 && st.st_mtim.tv_nsec == 5, "rstat's time");
    need(rlstat(node, "link", &other) == 0 && S_ISLNK(other.st_mode), "rlstat");
    need(other.st_ino != st.st_ino && other.st_dev == st.st_dev, "rlstat's");
    need(rsize(node, "file") == 10, "rsize");
    need(rtruncate(node, "file", 4) == 0 && rsize(node, "file") == 4, "rtruncate");
    need(failed(rtruncate(node, "file", -1), EINVAL), "rtruncate to less than nothing");
    need(rrename(node, "file", "new") == 0 && failed(rsize(node, "file"), ENOENT), "rrename");
    handle = ropen(node, "new", O_RDONLY);
    need(handle >= 0 && rfnode(handle) == node, "ropen, rfnode");
    need(rfstat(handle, &other) == 0 && other.st_ino == st.st_ino && other.st_size == 4, "rfstat");
    need(failed(fsdetach(node), EBUSY), "fsdetach of what is used");
    need(rclose(handle) == 0 && failed(rclose(handle), EBADF), "rclose");
    need(runlink(node, "new") == 0 && failed(rstat(node, "new", &st), ENOENT), "runlink");
}

static void folders(void) {
    char name[256];
    int list, seen = 0;
    need(rmkdir(node, "d", 0700) == 0 && rmkdir(node, "d/within", 0700) == 0, "rmkdir");
    need(rstat(node, "d", &st) == 0 && st.st_mode == (S_IFDIR | 0700), "rmkdir's");
    list = ropendir(node, "d");
    need(list >= 0, "ropendir");
    for (int round = 0; round < 2; round++) {
        while (rreaddir(list, name, sizeof name) == 1) seen += strcmp(name, "within") == 0;
        need(seen == round + 1 && rreaddir(list, name, sizeof name) == 0, "rreaddir");
        need(rrewinddir(list) == 0, "rrewinddir");
    }
    need(rclosedir(list) == 0 && failed(rclosedir(list), EBADF), "rclosedir");
    need(failed(rrmdir(node, "d"), ENOTEMPTY), "rrmdir of what is not empty");
    /* A relative path begins in what was entered. */
    need(rchdir(node, "d") == 0 && rrmdir(node, "within") == 0, "rchdir");
    need(rchdir(node, "..") == 0 && rrmdir(node, "d") == 0, "rrmdir");
    need(failed(rchdir(node, "d"), ENOENT), "rrmdir's");
}

static void content(void) {
    char out[100], back[100];
    int handle, request;
    for (int i = 0; i < 100; i++) out[i] = i;
    handle = ropenm(node, "c", O_RDWR | O_CREAT | O_EXCL, 0600);
    need(handle >= 0 && rfstat(handle, &st) == 0 && st.st_mode == (S_IFREG | 0600), "ropenm");
    need(rahead(handle, 65536) == 0 && rbehind(handle, 65536) == 0, "rahead, rbehind");
    need(rwrite(handle, out, 60) == 60 && rlseek(handle, 0, SEEK_CUR) == 60, "rwrite");
    need(rpwrite(handle, out + 60, 40, 60) == 40, "rpwrite");
    need(rfdatasync(handle) == 0 && rfsync(handle) == 0, "rfdatasync, rfsync");
    need(rlseek(handle, -100, SEEK_END) == 0 && rread(handle, back, 50) == 50, "rlseek, rread");
    need(rpread(handle, back + 50, 99, 50) == 50, "rpread");
    need(memcmp(out, back, 100) == 0, "what was read");
    request = raread(handle, back, 100, 90);
    need(request >= 0, "raread");
    while (rtest(request) == 0) {}
    need(rtest(request) == 1 && rwait(request) == 10, "rtest, rwait");
    need(failed(rtest(request), EBADF) && memcmp(back, out + 90, 10) == 0, "what raread read");
    need(rftruncate(handle, (int64_t)1 << 33) == 0, "rftruncate");
    need(rsize(node, "c") == (int64_t)1 << 33, "rftruncate's");
    need(rclose(handle) == 0 && runlink(node, "c") == 0, "runlink");
}

static void pieces(void) {
    char first[4] = "abc", second[5] = "defg";
    struct iovec both[] = {{first, 3}, {second, 4}};
    int handle = ropen(node, "p", O_RDWR | O_CREAT);
    need(rwritev(handle, both, 2) == 7 && rlseek(handle, 1, SEEK_SET) == 1, "rwritev");
    need(rreadv(handle, both, 2) == 6, "rreadv");
    need(strcmp(first, "bcd") == 0 && strcmp(second, "efgg") == 0, "what rreadv read");
    need(rclose(handle) == 0 && runlink(node, "p") == 0, "runlink");
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    need(fsinit() == 0, "fsinit");
    node = fsattach("elsewhere");
    need(node >= 0, "fsattach");
    nodes();
    need(rchdir(node, argv[1]) == 0, "rchdir");
    names();
    folders();
    content();
    pieces();
    need(fsdetach(node) == 0 && failed(fsdetach(node), ENXIO), "fsdetach");
    need(fsend() == 0 && failed(fsend(), ENXIO), "fsend");
    printf("every one\n");
    return 0;
}
