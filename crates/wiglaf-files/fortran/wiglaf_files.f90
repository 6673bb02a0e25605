! Files on other nodes, for Fortran 2003 and later. The calls are those of
! wiglaf_files.h; text needs no zero at its end, and trailing blanks of a path
! do not count. Buffers are given by c_loc.
module wiglaf_files
  use, intrinsic :: iso_c_binding
  implicit none
  private

  public :: fsinit, fsend, fsattach, fsdetach, fuerrno, fureason
  public :: rchdir, runlink, rrename, rmkdir, rrmdir, rtruncate, rsize
  public :: ropen, rclose, rfnode, rread, rwrite, rpread, rpwrite, rlseek
  public :: rfsync, rfdatasync, rftruncate, raread, rtest, rwait, rahead, rbehind

  ! Flags of ropen, as Linux numbers them, to be joined by ior.
  integer(c_int), parameter, public :: o_rdonly = 0, o_wronly = 1, o_rdwr = 2
  integer(c_int), parameter, public :: o_creat = int(o'100'), o_excl = int(o'200')
  integer(c_int), parameter, public :: o_trunc = int(o'1000'), o_append = int(o'2000')
  ! Where rlseek counts from: the beginning, the position, the end.
  integer(c_int), parameter, public :: seek_set = 0, seek_cur = 1, seek_end = 2

  interface
    integer(c_int) function fsinit() bind(c)
      import
    end function
    integer(c_int) function fsend() bind(c)
      import
    end function
    integer(c_int) function fsdetach(node) bind(c)
      import
      integer(c_int), value :: node
    end function
    integer(c_int) function fuerrno() bind(c)
      import
    end function
    integer(c_int) function rclose(handle) bind(c)
      import
      integer(c_int), value :: handle
    end function
    integer(c_int) function rfnode(handle) bind(c)
      import
      integer(c_int), value :: handle
    end function
    ! Bytes that were read, or -1; they go to the position, which moves.
    integer(c_intptr_t) function rread(handle, buf, len) bind(c)
      import
      integer(c_int), value :: handle
      type(c_ptr), value :: buf
      integer(c_size_t), value :: len
    end function
    integer(c_intptr_t) function rwrite(handle, buf, len) bind(c)
      import
      integer(c_int), value :: handle
      type(c_ptr), value :: buf
      integer(c_size_t), value :: len
    end function
    integer(c_intptr_t) function rpread(handle, buf, len, offset) bind(c)
      import
      integer(c_int), value :: handle
      type(c_ptr), value :: buf
      integer(c_size_t), value :: len
      integer(c_int64_t), value :: offset
    end function
    integer(c_intptr_t) function rpwrite(handle, buf, len, offset) bind(c)
      import
      integer(c_int), value :: handle
      type(c_ptr), value :: buf
      integer(c_size_t), value :: len
      integer(c_int64_t), value :: offset
    end function
    integer(c_int64_t) function rlseek(handle, offset, whence) bind(c)
      import
      integer(c_int), value :: handle
      integer(c_int64_t), value :: offset
      integer(c_int), value :: whence
    end function
    integer(c_int) function rfsync(handle) bind(c)
      import
      integer(c_int), value :: handle
    end function
    integer(c_int) function rfdatasync(handle) bind(c)
      import
      integer(c_int), value :: handle
    end function
    integer(c_int) function rftruncate(handle, size) bind(c)
      import
      integer(c_int), value :: handle
      integer(c_int64_t), value :: size
    end function
    ! The buffer must be a target, and not be touched until rwait has returned.
    integer(c_int) function raread(handle, buf, len, offset) bind(c)
      import
      integer(c_int), value :: handle
      type(c_ptr), value :: buf
      integer(c_size_t), value :: len
      integer(c_int64_t), value :: offset
    end function
    integer(c_int) function rtest(request) bind(c)
      import
      integer(c_int), value :: request
    end function
    integer(c_intptr_t) function rwait(request) bind(c)
      import
      integer(c_int), value :: request
    end function
    integer(c_int) function rahead(handle, len) bind(c)
      import
      integer(c_int), value :: handle
      integer(c_size_t), value :: len
    end function
    integer(c_int) function rbehind(handle, len) bind(c)
      import
      integer(c_int), value :: handle
      integer(c_size_t), value :: len
    end function

    integer(c_int) function c_fsattach(host) bind(c, name="fsattach")
      import
      character(kind=c_char), intent(in) :: host(*)
    end function
    integer(c_int) function c_rchdir(node, path) bind(c, name="rchdir")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_runlink(node, path) bind(c, name="runlink")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_rrename(node, from, to) bind(c, name="rrename")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: from(*), to(*)
    end function
    integer(c_int) function c_rmkdir(node, path, mode) bind(c, name="rmkdir")
      import
      integer(c_int), value :: node, mode
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_rrmdir(node, path) bind(c, name="rrmdir")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_rtruncate(node, path, size) bind(c, name="rtruncate")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int64_t), value :: size
    end function
    integer(c_int64_t) function c_rsize(node, path) bind(c, name="rsize")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_ropen(node, path, oflag) bind(c, name="ropen")
      import
      integer(c_int), value :: node, oflag
      character(kind=c_char), intent(in) :: path(*)
    end function
    type(c_ptr) function c_fureason() bind(c, name="fureason")
      import
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  integer(c_int) function fsattach(hostname)
    character(len=*), intent(in) :: hostname
    fsattach = c_fsattach(trim(hostname) // c_null_char)
  end function

  integer(c_int) function rchdir(node, path)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    rchdir = c_rchdir(node, trim(path) // c_null_char)
  end function

  integer(c_int) function runlink(node, path)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    runlink = c_runlink(node, trim(path) // c_null_char)
  end function

  integer(c_int) function rrename(node, from, to)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: from, to
    rrename = c_rrename(node, trim(from) // c_null_char, trim(to) // c_null_char)
  end function

  integer(c_int) function rmkdir(node, path, mode)
    integer(c_int), intent(in) :: node, mode
    character(len=*), intent(in) :: path
    rmkdir = c_rmkdir(node, trim(path) // c_null_char, mode)
  end function

  integer(c_int) function rrmdir(node, path)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    rrmdir = c_rrmdir(node, trim(path) // c_null_char)
  end function

  integer(c_int) function rtruncate(node, path, size)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    integer(c_int64_t), intent(in) :: size
    rtruncate = c_rtruncate(node, trim(path) // c_null_char, size)
  end function

  ! A file's length in bytes, or -1.
  integer(c_int64_t) function rsize(node, path)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    rsize = c_rsize(node, trim(path) // c_null_char)
  end function

  integer(c_int) function ropen(node, path, oflag)
    integer(c_int), intent(in) :: node, oflag
    character(len=*), intent(in) :: path
    ropen = c_ropen(node, trim(path) // c_null_char, oflag)
  end function

  ! Why this thread's last failed call failed.
  function fureason() result(reason)
    character(len=:), allocatable :: reason
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: from
    integer :: i, length
    from = c_fureason()
    length = int(c_strlen(from))
    call c_f_pointer(from, text, [length])
    allocate(character(len=length) :: reason)
    do i = 1, length
      reason(i:i) = text(i)
    end do
  end function

end module wiglaf_files
