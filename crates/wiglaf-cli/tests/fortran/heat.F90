! Heat spreads over a plate that is cut into strips of columns, one strip to a
! rank. Neighbours exchange their edges; rows are a strided type. The result
! must be that of one process, bit for bit. WAY is 1 for mpif.h, 2 for
! `use mpi`, 3 for `use mpi_f08`.
#if WAY == 3
#define DATATYPE type(MPI_Datatype)
#define REQUEST type(MPI_Request)
#else
#define DATATYPE integer
#define REQUEST integer
#endif
program heat
#if WAY == 2
  use mpi
#elif WAY == 3
  use mpi_f08
#endif
  implicit none
#if WAY == 1
  include 'mpif.h'
#endif
  integer, parameter :: dp = kind(1d0), rows = 64, steps = 200
  real(dp), allocatable :: plate(:,:), next(:,:), whole(:,:), alone(:,:)
  real(dp) :: change, largest
  integer :: rank, ranks, ierror, columns, step, before, after, length
  DATATYPE :: row
  REQUEST :: requests(4)
  character(MPI_MAX_PROCESSOR_NAME) :: name
  character(16) :: greeting

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call MPI_Get_processor_name(name, length, ierror)
  greeting = ''
  if (rank == 0) greeting = 'heat'
  call MPI_Bcast(greeting, len(greeting), MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)
  columns = 8
  allocate(plate(rows, 0:columns+1), next(rows, 0:columns+1))
  allocate(whole(rows, columns * ranks), alone(rows, 0:columns*ranks+1))
  alone = start(0, columns * ranks + 1)
  plate = start(rank * columns, (rank + 1) * columns + 1)
  before = rank - 1
  if (rank == 0) before = MPI_PROC_NULL
  after = rank + 1
  if (after == ranks) after = MPI_PROC_NULL
  do step = 1, steps
    call MPI_Irecv(plate(1, 0), rows, MPI_DOUBLE_PRECISION, before, 1, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Irecv(plate(1, columns+1), rows, MPI_DOUBLE_PRECISION, after, 2, MPI_COMM_WORLD, &
      requests(2), ierror)
    call MPI_Isend(plate(1, columns), rows, MPI_DOUBLE_PRECISION, after, 1, MPI_COMM_WORLD, requests(3), ierror)
    call MPI_Isend(plate(1, 1), rows, MPI_DOUBLE_PRECISION, before, 2, MPI_COMM_WORLD, requests(4), ierror)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierror)
    next = plate
    call spread_heat(plate, next, columns)
    change = maxval(abs(next(:, 1:columns) - plate(:, 1:columns)))
    call MPI_Allreduce(change, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
    plate = next
  end do
  do step = 1, steps
    whole = alone(:, 1:columns*ranks)
    call spread_whole
  end do
  change = maxval(abs(whole - alone(:, 1:columns*ranks)))
  whole = 0
  call MPI_Allgather(plate(1, 1), rows * columns, MPI_DOUBLE_PRECISION, whole, rows * columns, &
    MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierror)
  call MPI_Type_vector(columns * ranks, 1, rows, MPI_DOUBLE_PRECISION, row, ierror)
  call MPI_Type_commit(row, ierror)
  ! The middle row of rank 0 over that of the others: nothing may change.
  if (rank > 0) whole(rows / 2, :) = -1
  call MPI_Bcast(whole(rows / 2, 1), 1, row, 0, MPI_COMM_WORLD, ierror)
  call MPI_Type_free(row, ierror)
  if (trim(greeting) == 'heat' .and. change == largest .and. all(whole == alone(:, 1:columns*ranks))) then
    print '(a,i0,a,i0,3a)', 'rank ', rank, ' of ', ranks, ' on ', name(1:length), ': as one process'
  else
    print '(a,i0,a,2es24.16)', 'rank ', rank, ': WRONG ', change, largest
  end if
  call MPI_Finalize(ierror)

contains

  ! Cold, but for one hot edge.
  function start(first, last) result(columns_of)
    integer, intent(in) :: first, last
    real(dp) :: columns_of(rows, last - first + 1)
    columns_of = 0
    if (first == 0) columns_of(:, 1) = 100
  end function

  subroutine spread_heat(from, to, width)
    integer, intent(in) :: width
    real(dp), intent(in) :: from(rows, 0:width+1)
    real(dp), intent(inout) :: to(rows, 0:width+1)
    integer :: i, j
    do j = 1, width
      do i = 2, rows - 1
        to(i, j) = 0.25_dp * (from(i-1, j) + from(i+1, j) + from(i, j-1) + from(i, j+1))
      end do
    end do
  end subroutine

  subroutine spread_whole
    real(dp) :: new(rows, 0:columns*ranks+1)
    new = alone
    call spread_heat(alone, new, columns * ranks)
    alone = new
  end subroutine
end program
