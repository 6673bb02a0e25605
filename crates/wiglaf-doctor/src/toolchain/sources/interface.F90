! A small program through one of MPI's interfaces: WAY is 1 for mpif.h, 2 for
! `use mpi`, 3 for `use mpi_f08`.
program interface_probe
#if WAY == 2
  use mpi
#elif WAY == 3
  use mpi_f08
#endif
  implicit none
#if WAY == 1
  include 'mpif.h'
#endif
  integer :: rank, ranks, ierror, mine(2), sum(2)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  mine = [rank, 1]
  call MPI_Allreduce(mine, sum, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0 .and. sum(2) == ranks) print '(a,i0,a)', 'ok on ', ranks, ' ranks'
  call MPI_Finalize(ierror)
end program
