! What a compiler makes of LOGICALs, INTEGERs and names. The object file holds
! the name of the last subroutine as the compiler writes it.
program language
  implicit none
  logical(1) :: one
  logical(2) :: two
  logical(4) :: four
  logical(8) :: eight
  one = .true.
  two = .true.
  four = .true.
  eight = .true.
  print '(a,4(1x,i0))', 'true', transfer(one, 0_1), transfer(two, 0_2), transfer(four, 0_4), transfer(eight, 0_8)
  call read_as(1)
  call read_as(-1)
  call read_as(2)
  call read_as(256)
  print '(a,1x,i0)', 'integer', storage_size(0) / 8
  call probe_name
end program

! Whether the program takes LOGICALs of this value for true, and their
! opposite for false.
subroutine read_as(value)
  implicit none
  integer(4), intent(in) :: value
  logical(4) :: truth
  integer :: taken, opposite
  truth = transfer(value, truth)
  taken = 0
  opposite = 0
  if (truth) taken = 1
  if (.not. truth) opposite = 1
  print '(a,3(1x,i0))', 'reads', value, taken, opposite
end subroutine

subroutine probe_name
end subroutine
