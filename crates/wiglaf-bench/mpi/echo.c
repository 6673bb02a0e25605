/* Echo: rank 0 is silent for a while, then sends a message and takes the answer; again and again.
 *
 *   echo LEN COUNT PAUSE_US [COUNT PAUSE_US]...
 *
 * Without a pause this is a ping-pong of COUNT round trips, however long they take: on a wire that
 * loses frames the long ones are those that a loss struck. With a pause it shows what waiting costs
 * rank 1, and how soon it wakes up. A thread of rank 1, asleep otherwise, reads what processor time
 * its process has used at two instants of each pause that is long enough for both: 10 ms after its
 * beginning, when the polling of the first 5 ms is over, and half a second later.
 *
 * With WIGLAF_BENCH_SOCKETS in the environment the messages go over a plain TCP connection, and MPI
 * only tells rank 0 the port. Rank 1 blocks in read(2). Rank 0 polls, as an MPI does that has just
 * sent: its answer comes at once, and to block for it would add a second wake-up to the round trip.
 *
 * One JSON line for each COUNT and PAUSE_US from rank 0: every round trip in nanoseconds, how often
 * rank 0 slept in one (after a pause only), the processor time of rank 1 from its first wait to its
 * last answer, and that between the two instants of all pauses together, with the time between them. */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT_MAX = 1000000, TAG = 1, WARM_UP = 20 };
/* The two instants of a pause, and how long one is that has both. */
enum { FROM_NS = 10000000, TO_NS = 510000000, SPACIOUS_US = 550000 };

static int rank, len, peer_socket = -1;
static unsigned char *buffer;
static sem_t pause_begins, pause_is_read;
static int64_t pause_began_ns, quiet_wall_ns, quiet_cpu_ns;
static long sleeps;

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How often this thread has given its core away because it waited. */
static long sleeps_so_far(void) {
    struct rusage used;
    if (getrusage(RUSAGE_THREAD, &used)) fail("cannot count switches");
    return used.ru_nvcsw;
}

static void sleep_until(int64_t ns) {
    struct timespec at = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {}
}

static void *read_pauses(void *none) {
    for (;;) {
        while (sem_wait(&pause_begins)) {}
        sleep_until(pause_began_ns + FROM_NS);
        int64_t wall = now_ns(), cpu = cpu_ns();
        sleep_until(pause_began_ns + TO_NS);
        quiet_cpu_ns += cpu_ns() - cpu;
        quiet_wall_ns += now_ns() - wall;
        sem_post(&pause_is_read);
    }
    return none;
}

/* The address of the node's interface: what its own host name stands for. */
static struct sockaddr_in own_address(void) {
    char name[256] = {0};
    struct sockaddr_in address = {.sin_family = AF_INET};
    FILE *hosts = fopen("/etc/hosts", "r");
    char line[512], ip[64], word[256];
    gethostname(name, sizeof name - 1);
    while (hosts && fgets(line, sizeof line, hosts))
        if (sscanf(line, "%63s %255s", ip, word) == 2 && !strcmp(word, name)) {
            struct in_addr found;
            if (inet_pton(AF_INET, ip, &found) == 1) address.sin_addr = found;
        }
    if (hosts) fclose(hosts);
    if (!address.sin_addr.s_addr) address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void connect_sockets(void) {
    struct sockaddr_in address = own_address();
    socklen_t size = sizeof address;
    int one = 1;
    if (rank == 1) {
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (void *)&address, size) || listen(listener, 1)) fail("cannot listen");
        getsockname(listener, (void *)&address, &size);
        MPI_Send(&address, sizeof address, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        peer_socket = accept(listener, NULL, NULL);
        close(listener);
    } else {
        MPI_Recv(&address, sizeof address, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        peer_socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(peer_socket, (void *)&address, size)) fail("cannot connect");
    }
    if (peer_socket < 0) fail("no connection");
    setsockopt(peer_socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void put(void) {
    if (peer_socket < 0) {
        MPI_Send(buffer, len, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD);
    } else if (write(peer_socket, buffer, (size_t)len) != len) {
        fail("cannot write to the socket");
    }
}

static void get(void) {
    if (peer_socket < 0) {
        MPI_Recv(buffer, len, MPI_BYTE, !rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (ssize_t at = 0; at < len;) {
        int flags = rank == 0 ? MSG_DONTWAIT : 0;
        ssize_t more = recv(peer_socket, buffer + at, (size_t)(len - at), flags);
        if (more > 0) at += more;
        else if (more == 0 || (errno != EAGAIN && errno != EINTR)) fail("cannot read");
    }
}

static void step(int64_t token, long pause_us, int64_t *round_trip_ns) {
    int64_t got;
    if (rank == 0) {
        struct timespec pause = {pause_us / 1000000, pause_us % 1000000 * 1000};
        if (pause_us) nanosleep(&pause, NULL);
        memcpy(buffer, &token, sizeof token);
        long slept = pause_us ? sleeps_so_far() : 0;
        int64_t before = now_ns();
        put();
        get();
        *round_trip_ns = now_ns() - before;
        if (pause_us) sleeps += sleeps_so_far() - slept;
        memcpy(&got, buffer, sizeof got);
        if (got != token + 1) fail("the echo is a wrong one");
    } else {
        if (pause_us >= SPACIOUS_US) {
            pause_began_ns = now_ns();
            sem_post(&pause_begins);
        }
        get();
        memcpy(&got, buffer, sizeof got);
        got++;
        memcpy(buffer, &got, sizeof got);
        put();
        if (pause_us >= SPACIOUS_US) while (sem_wait(&pause_is_read)) {}
    }
}

static void measure(int count, long pause_us, int64_t *round_trip_ns) {
    for (int i = 0; i < WARM_UP; i++) step(i, 0, round_trip_ns);
    quiet_wall_ns = quiet_cpu_ns = 0;
    sleeps = 0;
    int64_t wall = now_ns(), cpu = cpu_ns();
    for (int i = 0; i < count; i++) step(i, pause_us, &round_trip_ns[i]);
    wall = now_ns() - wall;
    int64_t spent[3] = {cpu_ns() - cpu, quiet_cpu_ns, quiet_wall_ns};
    if (rank == 1) {
        MPI_Send(spent, 3, MPI_INT64_T, 0, TAG + 1, MPI_COMM_WORLD);
        return;
    }
    MPI_Recv(spent, 3, MPI_INT64_T, 1, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("{\"count\":%d,\"pause_us\":%ld,\"wall_ns\":%lld,\"waiter_cpu_ns\":%lld,"
           "\"quiet_cpu_ns\":%lld,\"quiet_wall_ns\":%lld,\"asker_sleeps\":%ld,\"round_trip_ns\":",
           count, pause_us, (long long)wall, (long long)spent[0], (long long)spent[1],
           (long long)spent[2], sleeps);
    print_histogram(round_trip_ns, count);
    puts("}");
    fflush(stdout);
}

int main(int argc, char **argv) {
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc < 4 || argc % 2 || ranks != 2)
        fail("usage: echo LEN COUNT PAUSE_US..., on exactly two ranks");
    len = (int)number(argv[1], sizeof(int64_t), 1 << 24);
    buffer = need((size_t)len);
    memset(buffer, 0, (size_t)len);
    int64_t *round_trip_ns = need(COUNT_MAX * sizeof *round_trip_ns);
    if (getenv("WIGLAF_BENCH_SOCKETS")) connect_sockets();
    pthread_t reader;
    sem_init(&pause_begins, 0, 0);
    sem_init(&pause_is_read, 0, 0);
    for (int a = 3; rank == 1 && a < argc; a += 2)
        if (number(argv[a], 0, 10000000) >= SPACIOUS_US) {
            if (pthread_create(&reader, NULL, read_pauses, NULL)) fail("no thread to read the clock");
            break;
        }
    for (int a = 2; a + 1 < argc; a += 2)
        measure((int)number(argv[a], 1, COUNT_MAX), number(argv[a + 1], 0, 10000000),
                round_trip_ns);
    if (peer_socket >= 0) close(peer_socket);
    MPI_Finalize();
    return 0;
}
