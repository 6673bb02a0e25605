/* Ranks start as many others as the argument says, and all talk to all. */
#include "check.h"

static void all_to_all(MPI_Comm with, int is_child)
{
    enum { LEN = 50000 };
    static int numbers[LEN];
    MPI_Comm merged;
    int everyone, here, one = 1, sum = 0;
    MPI_Intercomm_merge(with, is_child, &merged);
    MPI_Comm_size(merged, &everyone);
    MPI_Comm_rank(merged, &here);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == everyone, "%d of %d", sum, everyone);
    for (int root = 0; root < everyone; root++) {
        for (int i = 0; i < LEN; i++) numbers[i] = here == root ? root * LEN + i : -1;
        MPI_Bcast(numbers, LEN, MPI_INT, root, merged);
        for (int i = 0; i < LEN; i++) CHECK(numbers[i] == root * LEN + i, "item %d of %d", i, root);
    }
    MPI_Comm_free(&merged);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        all_to_all(parent, 1);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    int started = 0;
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, atoi(argv[1]), MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(children, &started);
    CHECK(started == atoi(argv[1]), "%d", started);
    all_to_all(children, 0);
    MPI_Comm_disconnect(&children);
    return finish();
}
