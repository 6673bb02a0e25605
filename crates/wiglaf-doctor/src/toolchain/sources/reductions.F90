! Every logical reduction, as a program meets it whose compiler stores .TRUE.
! as TRUTH. The arrays are INTEGERs of the size of LOGICALs: MPI sees the same
! bytes, and no compiler of these tests has to be of that kind.
!
! WAY is 1 for mpif.h, 2 for `use mpi`, 3 for `use mpi_f08`. KINDS says
! that the MPI has LOGICAL1 and so on; PERSISTENT that it has MPI_Allreduce_init.
#ifndef TRUTH
#define TRUTH -1
#endif
#if WAY == 3
#define REQUEST type(MPI_Request)
#define WINDOW type(MPI_Win)
#define OPERATION type(MPI_Op)
#else
#define REQUEST integer
#define WINDOW integer
#define OPERATION integer
#endif
program reductions
#if WAY == 2
  use mpi
#elif WAY == 3
  use mpi_f08
#endif
  implicit none
#if WAY == 1
  include 'mpif.h'
#endif
  integer, parameter :: n = 4
  integer, parameter :: one = selected_int_kind(2), two = selected_int_kind(4)
  integer, parameter :: eight = selected_int_kind(18)
  integer :: rank, ranks, ierror, checks, wrong, name
  OPERATION :: op
  REQUEST :: request
  WINDOW :: window
  integer :: mine(2), total(2)
  integer :: sent(n), got(n), other(n), got1(1), space(16 + n)
  integer, allocatable :: counts(:), many(:)
  integer(one) :: sent1(n), received1(n)
  integer(two) :: sent2(n), received2(n)
  integer(eight) :: sent8(n), received8(n)
  integer(MPI_ADDRESS_KIND) :: bytes, place, address

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  allocate(counts(ranks), many(ranks))
  counts = 1
  checks = 0
  wrong = 0
  sent = input(rank)
  do name = 1, 3
    if (name == 1) op = MPI_LAND
    if (name == 2) op = MPI_LOR
    if (name == 3) op = MPI_LXOR
    call blocking
    call nonblocking
    call one_sided
#ifdef KINDS
    call kinds
#endif
#ifdef PERSISTENT
    call MPI_Allreduce_init(sent, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, MPI_INFO_NULL, request, ierror)
    call MPI_Start(request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call MPI_Request_free(request, ierror)
    call check('allreduce_init', got, combined(0, ranks - 1))
#endif
  end do
  mine = [wrong, checks]
  call MPI_Allreduce(mine, total, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(i0,a,i0,a,i0,a)', total(1), ' of ', total(2), ' wrong on ', ranks, ' ranks'
  call MPI_Finalize(ierror)

contains

  ! What a rank sends: the first two ranks show all four pairs of truths.
  function input(from) result(bits)
    integer, intent(in) :: from
    integer :: bits(n)
    bits = 0
    if (from == 0) bits(1:2) = TRUTH
    if (from > 0) bits(1:3:2) = TRUTH
    if (from == 3) bits(4) = TRUTH
  end function

  ! What the inputs of a range of ranks make.
  function combined(first, last) result(bits)
    integer, intent(in) :: first, last
    integer :: bits(n), from
    bits = input(first)
    do from = first + 1, last
      bits = pair(bits, input(from))
    end do
  end function

  ! The operation on 0 and TRUTH.
  function pair(a, b) result(bits)
    integer, intent(in) :: a(n), b(n)
    integer :: bits(n)
    bits = 0
    if (name == 1) where (a /= 0 .and. b /= 0) bits = TRUTH
    if (name == 2) where (a /= 0 .or. b /= 0) bits = TRUTH
    if (name == 3) where ((a /= 0) .neqv. (b /= 0)) bits = TRUTH
  end function

  subroutine check(what, is, wanted)
    character(*), intent(in) :: what
    integer, intent(in) :: is(:), wanted(:)
    character(4), parameter :: names(3) = ['LAND', 'LOR ', 'LXOR']
    checks = checks + 1
    if (all(is == wanted)) return
    wrong = wrong + 1
    print '(5a,i0,a,8(1x,i0))', 'wrong: ', what, ' ', trim(names(name)), ' on rank ', rank, &
      ': got and wanted', is, wanted
  end subroutine

  subroutine blocking
    call MPI_Allreduce(sent, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, ierror)
    call check('allreduce', got, combined(0, ranks - 1))
    got = sent
    call MPI_Allreduce(MPI_IN_PLACE, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, ierror)
    call check('allreduce in place', got, combined(0, ranks - 1))
    got = 0
    call MPI_Reduce(sent, got, n, MPI_LOGICAL, op, ranks - 1, MPI_COMM_WORLD, ierror)
    if (rank == ranks - 1) call check('reduce', got, combined(0, ranks - 1))
    many = sent(1)
    call MPI_Reduce_scatter_block(many, got1, 1, MPI_LOGICAL, op, MPI_COMM_WORLD, ierror)
    other = combined(0, ranks - 1)
    call check('reduce_scatter_block', got1, other(1:1))
    call MPI_Reduce_scatter(many, got1, counts, MPI_LOGICAL, op, MPI_COMM_WORLD, ierror)
    call check('reduce_scatter', got1, other(1:1))
    call MPI_Scan(sent, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, ierror)
    call check('scan', got, combined(0, rank))
    call MPI_Exscan(sent, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, ierror)
    if (rank > 0) call check('exscan', got, combined(0, rank - 1))
    got = input(1)
    other = input(0)
    call MPI_Reduce_local(other, got, n, MPI_LOGICAL, op, ierror)
    call check('reduce_local', got, combined(0, 1))
  end subroutine

  subroutine nonblocking
    call MPI_Iallreduce(sent, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call check('iallreduce', got, combined(0, ranks - 1))
    call MPI_Ireduce(sent, got, n, MPI_LOGICAL, op, 0, MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    if (rank == 0) call check('ireduce', got, combined(0, ranks - 1))
    call MPI_Iscan(sent, got, n, MPI_LOGICAL, op, MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call check('iscan', got, combined(0, rank))
    many = sent(2)
    call MPI_Ireduce_scatter_block(many, got1, 1, MPI_LOGICAL, op, MPI_COMM_WORLD, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    other = combined(0, ranks - 1)
    call check('ireduce_scatter_block', got1, other(2:2))
  end subroutine

  ! Each rank combines what the rank before it holds with its own.
  subroutine one_sided
    integer :: before, fetched(n), wanted(n), first, last
    before = mod(rank + ranks - 1, ranks)
    place = 0
    ! MPICH 4.0.2 over UCX misplaces accumulates onto a window that does not
    ! begin at a multiple of 64 bytes.
    call MPI_Get_address(space, address, ierror)
    first = 1 + int(modulo(-address, 64_MPI_ADDRESS_KIND)) / 4
    last = first + n - 1
    bytes = 4 * n
    space(first:last) = sent
    call MPI_Win_create(space(first), bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    call MPI_Accumulate(sent, n, MPI_LOGICAL, before, place, n, MPI_LOGICAL, op, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    wanted = pair(sent, input(mod(rank + 1, ranks)))
    call check('accumulate', space(first:last), wanted)
    space(first:last) = sent
    call MPI_Win_fence(0, window, ierror)
    call MPI_Get_accumulate(sent, n, MPI_LOGICAL, fetched, n, MPI_LOGICAL, before, place, n, &
      MPI_LOGICAL, op, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    call check('get_accumulate', space(first:last), wanted)
    call check('get_accumulate, fetched', fetched, input(before))
    space(first:last) = sent
    call MPI_Win_fence(0, window, ierror)
    call MPI_Fetch_and_op(sent, fetched, MPI_LOGICAL, before, place, op, window, ierror)
    call MPI_Win_fence(0, window, ierror)
    call check('fetch_and_op', space(first:first), wanted(1:1))
    call MPI_Win_free(window, ierror)
  end subroutine

#ifdef KINDS
  subroutine kinds
    sent1 = int(sent, one)
    sent2 = int(sent, two)
    sent8 = int(sent, eight)
    call MPI_Allreduce(sent1, received1, n, MPI_LOGICAL1, op, MPI_COMM_WORLD, ierror)
    call check('LOGICAL1', int(received1), combined(0, ranks - 1))
    call MPI_Allreduce(sent2, received2, n, MPI_LOGICAL2, op, MPI_COMM_WORLD, ierror)
    call check('LOGICAL2', int(received2), combined(0, ranks - 1))
    call MPI_Allreduce(sent, got, n, MPI_LOGICAL4, op, MPI_COMM_WORLD, ierror)
    call check('LOGICAL4', got, combined(0, ranks - 1))
    call MPI_Allreduce(sent8, received8, n, MPI_LOGICAL8, op, MPI_COMM_WORLD, ierror)
    call check('LOGICAL8', int(received8), combined(0, ranks - 1))
  end subroutine
#endif
end program
