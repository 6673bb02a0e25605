//! Programs for stand-in hosts.

use wiglaf_testhosts::{Host, Output};

/// Where [`put_program`] puts them.
const PROGRAM: &str = "/home/ann/hello";

/// Each rank says where it is, and the sum of all ranks.
pub(crate) const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum, len;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &len);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: %d\n", rank, size, name, sum);
    return MPI_Finalize();
}
"#;

/// Reduces 1 and 2 by an operation that does not commute: 12, or 21 by an algorithm that turns operands round, as coll/tuned's
/// binomial tree does. So the result tells which was taken.
pub(crate) const ORDER: &str = r#"
#include <mpi.h>
#include <stdio.h>
static void then(void *first, void *second, int *len, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *len; i++) ((int *)second)[i] += 10 * ((int *)first)[i];
}
int main(int argc, char **argv) {
    int rank, all = 0;
    MPI_Op op;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op_create(then, 0, &op);
    int mine = rank + 1;
    MPI_Reduce(&mine, &all, 1, MPI_INT, op, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d\n", all);
    MPI_Finalize();
    return 0;
}
"#;
/// Which that is in coll/tuned, in versions 4 and 5.
pub(crate) const BINOMIAL: u32 = 5;

/// Puts an Open MPI program that this machine can compile on these hosts.
pub(crate) fn put_program(hosts: &[Host], source: &str) {
    put_program_of(hosts, "mpicc.openmpi", source);
}

/// Puts a program on these hosts that one of this machine's compilers makes.
pub(crate) fn put_program_of(hosts: &[Host], compiler: &str, source: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (code, built) = (dir.path().join("hello.c"), dir.path().join("hello"));
    std::fs::write(&code, source).unwrap();
    let status = std::process::Command::new(compiler).arg("-o").arg(&built).arg(&code).status();
    assert!(status.expect(compiler).success());
    for host in hosts {
        host.copy(&built, PROGRAM, 0o755);
    }
}

/// Two listings of a host are the same; what is different is in the message.
#[track_caller]
pub(crate) fn assert_same(before: &str, after: &str, host: &str) {
    let lines =
        |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let (before, after) = (lines(before), lines(after));
    let more: Vec<_> = after.difference(&before).take(20).collect();
    let less: Vec<_> = before.difference(&after).take(20).collect();
    assert!(more.is_empty() && less.is_empty(), "{host} has more {more:#?}, less {less:#?}");
}

/// The last sentence of a command that failed.
#[track_caller]
pub(crate) fn sentence(output: &Output) -> &str {
    output.complaint().lines().last().unwrap_or_default()
}
