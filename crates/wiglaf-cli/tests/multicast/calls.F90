! Collectives that a group of hosts can do, from Fortran: `use mpi`, or `use mpi_f08` with -DF08.
program calls
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: rank, ranks, error, round, i
  double precision :: mine(10), all(10)
  integer :: gathered(64), token(1)
  integer, allocatable :: long(:)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate(long(50000))
  do round = 1, 20
    mine = rank + round
    call MPI_Allreduce(mine, all, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (any(all /= ranks * round + ranks * (ranks - 1) / 2)) call wrong('sum')
    call MPI_Allreduce(MPI_IN_PLACE, mine, 10, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
    if (any(mine /= ranks - 1 + round)) call wrong('maximum in place')
    token = rank * round
    call MPI_Allgather(token, 1, MPI_INTEGER, gathered, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
    do i = 1, ranks
      if (gathered(i) /= (i - 1) * round) call wrong('gather')
    end do
    long = 0
    if (rank == mod(round, ranks)) long = [(i * round, i = 1, 50000)]
    call MPI_Bcast(long, 50000, MPI_INTEGER, mod(round, ranks), MPI_COMM_WORLD, error)
    do i = 1, 50000
      if (long(i) /= i * round) call wrong('broadcast')
    end do
    call MPI_Barrier(MPI_COMM_WORLD, error)
    if (error /= MPI_SUCCESS) call wrong('error')
  end do
  if (rank == 0) print '(a)', 'all right'
  call MPI_Finalize(error)

contains

  subroutine wrong(what)
    character(*), intent(in) :: what
    print '(3a, i0)', 'wrong ', what, ' in round ', round
    call MPI_Abort(MPI_COMM_WORLD, 3, error)
  end subroutine
end program
