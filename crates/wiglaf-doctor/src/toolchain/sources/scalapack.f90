! Solves a small system with PDGESV; the ranks are a row of the process grid.
program scalapack
  implicit none
  integer, parameter :: dp = kind(1d0), n = 16, block = 4
  integer, external :: numroc
  integer :: rank, ranks, context, row, column, rows, columns, i, local
  integer :: columns_here, info, about_a(9), about_b(9), pivots(n + block)
  real(dp) :: a(n, n), b(n, 1), solution(n), error
  call blacs_pinfo(rank, ranks)
  call blacs_get(-1, 0, context)
  call blacs_gridinit(context, 'Row', 1, ranks)
  call blacs_gridinfo(context, rows, columns, row, column)
  columns_here = numroc(n, block, column, 0, columns)
  call descinit(about_a, n, n, block, block, 0, 0, context, n, info)
  call descinit(about_b, n, 1, block, block, 0, 0, context, n, info)
  solution = [(real(i, dp), i = 1, n)]
  b = 0
  do local = 1, columns_here
    a(:, local) = [(entry(i, global(local)), i = 1, n)]
  end do
  if (column == 0) b(:, 1) = [(dot_product([(entry(i, local), local = 1, n)], solution), i = 1, n)]
  call pdgesv(n, 1, a, 1, 1, about_a, pivots, b, 1, 1, about_b, info)
  error = maxval(abs(b(:, 1) - solution))
  if (column == 0 .and. (info /= 0 .or. error > 1d-9)) print '(a,i0,es10.2)', 'wrong: ', info, error
  if (column == 0 .and. info == 0 .and. error <= 1d-9) print '(a,i0,a)', 'ok on ', ranks, ' ranks'
  call blacs_gridexit(context)
  call blacs_exit(0)
contains
  ! The column of the whole matrix that a local one is.
  integer function global(local)
    integer, intent(in) :: local
    global = ((local - 1) / block * columns + column) * block + mod(local - 1, block) + 1
  end function

  ! A matrix that is far from singular.
  real(dp) function entry(i, j)
    integer, intent(in) :: i, j
    entry = 1 / real(i + j, dp)
    if (i == j) entry = entry + n
  end function
end program
