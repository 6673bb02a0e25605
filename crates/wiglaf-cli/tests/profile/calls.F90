! Calls of MPI whose numbers and sizes are known. WAY 1: mpif.h, 2: `use mpi`, 3: `use mpi_f08`.
program calls
#if WAY == 3
  use mpi_f08
#elif WAY == 2
  use mpi
#endif
  implicit none
#if WAY == 1
  include 'mpif.h'
#endif
  integer :: rank, n, ierr, i, right, left
  double precision :: x(100), y(100)
#if WAY == 3
  type(MPI_Status) :: st
  type(MPI_Request) :: r
#else
  integer :: st(MPI_STATUS_SIZE), r
#endif
  call mpi_init(ierr)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
  call mpi_comm_size(MPI_COMM_WORLD, n, ierr)
  right = mod(rank + 1, n); left = mod(rank + n - 1, n)
  x = rank
  do i = 1, 6
    call mpi_isend(x, 100, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, r, ierr)
    call mpi_recv(y, 100, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, st, ierr)
    call mpi_wait(r, st, ierr)
  end do
  do i = 1, 3
    call mpi_allreduce(MPI_IN_PLACE, x, 50, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  call mpi_gather(x, 1, MPI_DOUBLE_PRECISION, y, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr)
  call mpi_barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) print *, 'done'
  call mpi_finalize(ierr)
end program
