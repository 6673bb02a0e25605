/* What the kernel counted on this node, and what `wiglaf stats` says of this node's endpoints. */
#ifndef WIGLAF_BENCH_COUNTERS_H
#define WIGLAF_BENCH_COUNTERS_H

#include <string.h>

enum { COUNTERS = 3, STATS_LEN_MAX = 1 << 20 };

static const char *const counter_names[COUNTERS][2] = {
    {"Tcp:", "RetransSegs"}, {"Udp:", "RcvbufErrors"}, {"Udp:", "InErrors"}};
static int64_t counters_before[COUNTERS];

/* /proc/net/snmp: a line of names and a line of values for each protocol. */
static int64_t kernel_counter(const char *protocol, const char *name) {
    static char names[4096], values[4096];
    FILE *file = fopen("/proc/self/net/snmp", "r");
    int64_t found = 0;
    while (file && fgets(names, sizeof names, file) && fgets(values, sizeof values, file)) {
        char *name_at, *value_at;
        char *a = strtok_r(names, " \n", &name_at), *b = strtok_r(values, " \n", &value_at);
        int is_it = a && !strcmp(a, protocol);
        while (is_it && a && b) {
            if (!strcmp(a, name)) found = strtoll(b, NULL, 10);
            a = strtok_r(NULL, " \n", &name_at);
            b = strtok_r(NULL, " \n", &value_at);
        }
    }
    if (file) fclose(file);
    return found;
}

static void count_from_here(void) {
    for (int i = 0; i < COUNTERS; i++)
        counters_before[i] = kernel_counter(counter_names[i][0], counter_names[i][1]);
}

/* The output of the command in WIGLAF_BENCH_STATS without its line breaks; "[]" without one. */
static void wiglaf_stats(char *out) {
    const char *command = getenv("WIGLAF_BENCH_STATS");
    FILE *pipe = command ? popen(command, "r") : NULL;
    size_t len = 0;
    int c;
    while (pipe && (c = fgetc(pipe)) != EOF)
        if (c != '\n' && len < STATS_LEN_MAX - 2048) out[len++] = (char)c;
    if (pipe && pclose(pipe)) len = 0;
    out[len] = 0;
    if (!len) strcpy(out, "[]");
}

/* What was counted on this node so far, as a JSON object. */
static void node_counters(char *text) {
    int64_t kernel[COUNTERS];
    for (int i = 0; i < COUNTERS; i++)
        kernel[i] = kernel_counter(counter_names[i][0], counter_names[i][1]) - counters_before[i];
    int at = snprintf(text, 512,
                      "{\"tcp_retransmitted\":%lld,\"udp_overruns\":%lld,\"udp_errors\":%lld,"
                      "\"endpoints\":",
                      (long long)kernel[0], (long long)kernel[1], (long long)kernel[2]);
    wiglaf_stats(text + at);
    strcat(text, "}");
}

/* Endpoints write their counters at most every 100 ms, and only when they are polled. Ranks of one
 * node all say the same. Rank 0 prints a member of a JSON object. */
static void print_counters(int rank, int ranks) {
    static char text[STATS_LEN_MAX];
    int64_t until = now_ns() + 250000000;
    int flag;
    MPI_Barrier(MPI_COMM_WORLD);
    while (now_ns() < until)
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    node_counters(text);
    if (rank) {
        MPI_Send(text, (int)strlen(text) + 1, MPI_CHAR, 0, 98, MPI_COMM_WORLD);
        return;
    }
    printf("\"nodes\":[%s", text);
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(text, sizeof text, MPI_CHAR, i, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf(",%s", text);
    }
    putchar(']');
}

#endif
