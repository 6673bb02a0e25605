! Writes an array to a file on another node and reads it back:
!
!   wiglaf exec -w node1 -- ./remote-f node2 /scratch/example
program remote
  use, intrinsic :: iso_c_binding
  use wiglaf_files
  implicit none
  integer, parameter :: n = 300000
  real(c_double), target :: numbers(n), back(n)
  character(len=256) :: host, path
  integer(c_int) :: node, handle
  integer(c_size_t) :: length
  integer :: i

  call get_command_argument(1, host)
  call get_command_argument(2, path)
  call need(fsinit() == 0, "fsinit")
  node = fsattach(host)
  call need(node >= 0, "fsattach")
  handle = ropen(node, path, ior(o_rdwr, ior(o_creat, o_trunc)))
  call need(handle >= 0, "ropen")
  call need(rfnode(handle) == node, "rfnode")

  numbers = [(0.5d0 * i, i = 1, n)]
  length = n * c_sizeof(numbers(1))
  call need(rwrite(handle, c_loc(numbers), length) == length, "rwrite")
  call need(rfsync(handle) == 0, "rfsync")
  call need(rlseek(handle, 0_c_int64_t, seek_set) == 0, "rlseek")
  call need(rread(handle, c_loc(back), length) == length, "rread")
  call need(all(numbers == back), "comparing")
  call need(rclose(handle) == 0, "rclose")

  print '(a,a,i0,a,a)', trim(path), " has ", rsize(node, path), " bytes on ", trim(host)
  if (ropen(node, "/etc/passwd", o_rdonly) < 0) print '(2a)', "/etc/passwd: ", fureason()
  call need(runlink(node, path) == 0, "runlink")
  call need(fsdetach(node) == 0, "fsdetach")
  call need(fsend() == 0, "fsend")

contains

  subroutine need(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    if (ok) return
    write (*, '(3a,i0,a)') what, ": ", fureason(), fuerrno(), " is the errno"
    error stop 1
  end subroutine

end program remote
