#!/usr/bin/env bash
# What: events of a data frame that have one time and one variable, as two doses; R 4.2.2.20221110-2, r-cran-desolve
#   1.34-1.
# Guess: each is done: the row 'var time value method', so the manual, 'will cause the value to be added'. 1 with 10 and
#   100 added is 111.
# Happens: 111, as long as these two are all events. With a third event anywhere, the two are replaced by one with their
#   mean value: 1 becomes 56. `replace` by 5 and `add` 10 become one event as well, of the mean kind: 7.5. All solvers do
#   so, and nothing is said. The manual has `ties = "ordered"`, which turns it off, for 'some computational time'.
# Who meets it: doses, harvests or inflows from a table: two with one date, as of two sources or rounded times, are half
#   of what was given.
# Instead: `events = list(data = table, ties = "ordered")` with the table in order of time, or rows that are summed up
#   before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q r-base-core=4.2.2.20221110-2 r-cran-desolve=1.34-1 \
    libblas3 liblapack3 libgfortran5 libquadmath0 libgomp1 libicu72 libreadline8 libtirpc3 libpcre2-8-0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
home=$T/usr/lib/R libraries=$T/usr/lib/x86_64-linux-gnu
sed -i "s,/usr/lib/R,$home,g; s,/usr/share/R,$T/usr/share/R,g" usr/lib/R/bin/R
cp -r --remove-destination etc/R/. usr/lib/R/etc; cp --remove-destination usr/lib/R/etc/Renviron{.ucf,}
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$home/lib HOME=$T
export R_LIBS=$home/library:$home/site-library R_LIBS_USER=none
cat >program.R <<'P'
suppressMessages(library(deSolve))
options(warn = 1)
nothing <- function(t, y, p) list(0 * y)                    # the events alone change y
end <- function(time, value, method, ...) {
    table <- data.frame(var = "y", time = time, value = value, method = method)
    for (solver in c("lsoda", "vode", "rk4"))
        cat(" ", ode(c(y = 1), 0:5, nothing, NULL, method = solver, events = list(data = table, ...))[6, "y"])
    cat("\n")
}
cat("solvers: lsoda vode rk4\n")
cat("add 10 and 100 at time 2:"); end(c(2, 2), c(10, 100), "add")
cat("add 10 and 100 at time 2, and 0 at time 3:"); end(c(2, 2, 3), c(10, 100, 0), "add")
cat("the same with ties = ordered:"); end(c(2, 2, 3), c(10, 100, 0), "add", ties = "ordered")
cat("replace by 5 and add 10 at time 2, and add 0 at time 3:"); end(c(2, 2, 3), c(5, 10, 0), c("replace", "add", "add"))
cat("the same with ties = ordered:"); end(c(2, 2, 3), c(5, 10, 0), c("replace", "add", "add"), ties = "ordered")
P
"$home/bin/R" --vanilla -s -f program.R 2>&1 </dev/null | tee out
diff - out <<'P'
solvers: lsoda vode rk4
add 10 and 100 at time 2:  111  111  111
add 10 and 100 at time 2, and 0 at time 3:  56  56  56
the same with ties = ordered:  111  111  111
replace by 5 and add 10 at time 2, and add 0 at time 3:  7.5  7.5  7.5
the same with ties = ordered:  15  15  15
P
echo "as observed: two events of one time are one, with their mean"
