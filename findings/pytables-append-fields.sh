#!/usr/bin/env bash
# What: rows of a structured array appended to a table of PyTables; PyPI tables 3.11.1.
# Guess: fields go to the columns of their names, numbers are converted to the columns' types, and what does not fit is an
#   error: create_table(obj=rows) has 'not consistent with the data type', and tuples are converted.
# Happens: the bytes of the rows are taken as they are, whatever their fields are called or typed, where the length of a row,
#   or a multiple of it, fits. The float 1.5 becomes the integer 1069547520, a row of doubles for columns of single
#   precision becomes two rows, and a row without one of the columns is taken, too. Only other lengths are an error.
# Who meets it: a description given as a class or dictionary without pos=: its columns are in the order of the alphabet,
#   not that of the program. Rows of NumPy or mpi4py come in an order, or a precision, of their own.
# Instead: `file.create_table(..., description=rows.dtype)`, or `rows[table.colnames].astype(table.dtype)` when appending.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile tables==3.11.1 numpy==2.4.6 numexpr==2.14.2
cat >program.py <<'E'
import numpy as np, tables as tb
class Particle(tb.IsDescription):
    x = tb.Float32Col()
    v = tb.Float32Col()
    cell = tb.Int32Col()
rows = np.array([(1.5, 2.5, 7)], [("x", "f4"), ("v", "f4"), ("cell", "i4")])
double = rows.astype([("x", "f8"), ("v", "f8"), ("cell", "i8")])
with tb.open_file("file.h5", "w") as file:
    count = 0
    def append(label, rows):
        global count
        count += 1
        table = file.create_table("/", f"t{count}", Particle)
        try:
            table.append(rows)
            print(label + ":", "; ".join(" ".join(f"{name}={row[name]:g}" for name in ("x", "v", "cell")) for row in table[:]))
        except Exception as error: print(label + ":", type(error).__name__)
    names = ["cell", "v", "x"]      # as table.colnames
    append("the columns' order and type", rows[names].astype([("cell", "i4"), ("v", "f4"), ("x", "f4")]))
    append("a tuple", [(7, 2.5, 1.5)])
    append("the program's order", rows)
    append("rows[table.colnames] alone, a view", rows[names])
    append("the columns' order, 64 bits", double[names].astype([("cell", "i8"), ("v", "f8"), ("x", "f8")]))
    append("without cell", rows[["x", "v"]])
    append("a double and two of 32 bits", rows.astype([("x", "f8"), ("v", "f4"), ("cell", "i4")]))
    try: file.create_table("/", "new", Particle, obj=rows)
    except TypeError as error: print("create_table:", str(error)[-55:])
E
v/bin/python program.py | tee out
diff - out <<'E'
the columns' order and type: x=1.5 v=2.5 cell=7
a tuple: x=1.5 v=2.5 cell=7
the program's order: x=9.80909e-45 v=2.5 cell=1.06955e+09
rows[table.colnames] alone, a view: x=9.80909e-45 v=2.5 cell=1.06955e+09
the columns' order, 64 bits: x=0 v=0 cell=7; x=1.9375 v=0 cell=1.074e+09
without cell: x=9.80909e-45 v=2.5 cell=1.06955e+09
a double and two of 32 bits: ValueError
create_table:  not consistent with the data type of the obj parameter
E
echo "as observed: PyTables takes the bytes of a record, whatever its fields are called"
