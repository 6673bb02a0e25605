! Says who it is, after all ranks have added up their numbers.
program hello
  use mpi
  implicit none
  integer :: rank, ranks, total, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  print '(a,i0,a,i0,a,i0)', 'rank ', rank, ' of ', ranks, ', sum ', total
  call MPI_Finalize(ierror)
end program hello
