! Functions of BLAS by the type of their result, which compilers return in
! different ways, and a matrix product.
program blas
  implicit none
  integer, parameter :: dp = kind(1d0)
  real, external :: sdot
  real(dp), external :: ddot
  complex, external :: cdotc
  complex(dp), external :: zdotc
  real(dp) :: a(2, 2), b(2, 2), c(2, 2)
  complex(dp) :: z(2)
  a = reshape([1, 2, 3, 4], [2, 2])
  b = reshape([5, 6, 7, 8], [2, 2])
  c = -1
  z = [(1, 2), (3, -1)]
  if (sdot(2, [1.0, 2.0], 1, [3.0, 4.0], 1) /= 11) call wrong('sdot')
  if (ddot(2, a, 1, b, 1) /= 17) call wrong('ddot')
  if (cdotc(2, cmplx(z), 1, cmplx([z(2), z(1)]), 1) /= (2, 0)) call wrong('cdotc')
  if (zdotc(2, z, 1, [z(2), z(1)], 1) /= (2, 0)) call wrong('zdotc')
  call dgemm('N', 'N', 2, 2, 2, 1d0, a, 2, b, 2, 0d0, c, 2)
  if (any(c /= matmul(a, b))) call wrong('dgemm')
  print '(a)', 'ok'
contains
  subroutine wrong(what)
    character(*), intent(in) :: what
    print '(2a)', 'wrong: ', what
    stop
  end subroutine
end program
