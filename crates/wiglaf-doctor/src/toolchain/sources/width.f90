! Whether an INTEGER is as wide as MPI's. What is too wide keeps the half that
! MPI does not write.
program width
  implicit none
  include 'mpif.h'
  integer :: bytes, ierror
  bytes = -1
  call MPI_Init(ierror)
  call MPI_Type_size(MPI_INTEGER, bytes, ierror)
  print '(a,i0,a,i0)', 'width ', storage_size(bytes) / 8, ' of MPI ', bytes
  call MPI_Finalize(ierror)
end program
