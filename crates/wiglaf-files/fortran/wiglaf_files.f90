! Files on other nodes, for Fortran 2003 and later. The calls are those of
! wiglaf_files.h; text needs no zero at its end, and trailing blanks of a path
! do not count. Buffers are given by c_loc. What reads text answers it with blanks
! behind it.
module wiglaf_files
  use, intrinsic :: iso_c_binding
  implicit none
  private

  public :: fsinit, fsend, fsattach, fsdetach, fuerrno, fureason
  public :: rchdir, runlink, rrename, rmkdir, rrmdir, rtruncate, rsize
  public :: ropen, rclose, rfnode, rread, rwrite, rpread, rpwrite, rlseek
  public :: rfsync, rfdatasync, rftruncate, raread, rtest, rwait, rahead, rbehind
  public :: fsnodename, ropenm, rreadv, rwritev, rstat, rlstat, rfstat
  public :: ropendir, rreaddir, rrewinddir, rclosedir

  ! Flags of ropen, as Linux numbers them, to be joined by ior.
  integer(c_int), parameter, public :: o_rdonly = 0, o_wronly = 1, o_rdwr = 2
  integer(c_int), parameter, public :: o_creat = int(o'100'), o_excl = int(o'200')
  integer(c_int), parameter, public :: o_trunc = int(o'1000'), o_append = int(o'2000')
  ! Where rlseek counts from: the beginning, the position, the end.
  integer(c_int), parameter, public :: seek_set = 0, seek_cur = 1, seek_end = 2

  ! struct timespec.
  type, bind(c), public :: timespec_t
    integer(c_int64_t) :: tv_sec, tv_nsec
  end type

  ! struct stat, as Linux has it on x86-64.
  type, bind(c), public :: stat_t
    integer(c_int64_t) :: st_dev, st_ino, st_nlink
    integer(c_int32_t) :: st_mode, st_uid, st_gid, padding
    integer(c_int64_t) :: st_rdev, st_size, st_blksize, st_blocks
    type(timespec_t) :: st_atim, st_mtim, st_ctim
    integer(c_int64_t) :: reserved(3)
  end type

  ! struct iovec: a piece of memory, whose beginning c_loc gives.
  type, bind(c), public :: iovec_t
    type(c_ptr) :: iov_base
    integer(c_size_t) :: iov_len
  end type

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
    integer(c_intptr_t) function rreadv(handle, pieces, count) bind(c)
      import
      integer(c_int), value :: handle, count
      type(iovec_t), intent(in) :: pieces(*)
    end function
    integer(c_intptr_t) function rwritev(handle, pieces, count) bind(c)
      import
      integer(c_int), value :: handle, count
      type(iovec_t), intent(in) :: pieces(*)
    end function
    integer(c_int64_t) function rlseek(handle, offset, whence) bind(c)
      import
      integer(c_int), value :: handle
      integer(c_int64_t), value :: offset
      integer(c_int), value :: whence
    end function
    integer(c_int) function rfstat(handle, st) bind(c)
      import
      integer(c_int), value :: handle
      type(stat_t), intent(inout) :: st
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

    integer(c_int) function rrewinddir(folder) bind(c)
      import
      integer(c_int), value :: folder
    end function
    integer(c_int) function rclosedir(folder) bind(c)
      import
      integer(c_int), value :: folder
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
    integer(c_int) function c_ropenm(node, path, oflag, mode) bind(c, name="ropenm")
      import
      integer(c_int), value :: node, oflag, mode
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_rstat(node, path, st) bind(c, name="rstat")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
      type(stat_t), intent(inout) :: st
    end function
    integer(c_int) function c_rlstat(node, path, st) bind(c, name="rlstat")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
      type(stat_t), intent(inout) :: st
    end function
    integer(c_int) function c_ropendir(node, path) bind(c, name="ropendir")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function c_rreaddir(folder, name, len) bind(c, name="rreaddir")
      import
      integer(c_int), value :: folder
      character(kind=c_char), intent(inout) :: name(*)
      integer(c_size_t), value :: len
    end function
    integer(c_int) function c_fsnodename(node, name, len) bind(c, name="fsnodename")
      import
      integer(c_int), value :: node
      character(kind=c_char), intent(inout) :: name(*)
      integer(c_size_t), value :: len
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

  integer(c_int) function ropenm(node, path, oflag, mode)
    integer(c_int), intent(in) :: node, oflag, mode
    character(len=*), intent(in) :: path
    ropenm = c_ropenm(node, trim(path) // c_null_char, oflag, mode)
  end function

  integer(c_int) function rstat(node, path, st)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    type(stat_t), intent(inout) :: st
    rstat = c_rstat(node, trim(path) // c_null_char, st)
  end function

  integer(c_int) function rlstat(node, path, st)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    type(stat_t), intent(inout) :: st
    rlstat = c_rlstat(node, trim(path) // c_null_char, st)
  end function

  integer(c_int) function ropendir(node, path)
    integer(c_int), intent(in) :: node
    character(len=*), intent(in) :: path
    ropendir = c_ropendir(node, trim(path) // c_null_char)
  end function

  ! 1 and the next name, 0 at the end, -1 also for a name that is longer than `name`: it is there
  ! for the next call.
  integer(c_int) function rreaddir(folder, name)
    integer(c_int), intent(in) :: folder
    character(len=*), intent(out) :: name
    character(kind=c_char) :: text(len(name) + 1)
    text = c_null_char
    rreaddir = c_rreaddir(folder, text, size(text, kind=c_size_t))
    call blanks_behind(text, name)
  end function

  integer(c_int) function fsnodename(node, name)
    integer(c_int), intent(in) :: node
    character(len=*), intent(out) :: name
    character(kind=c_char) :: text(len(name) + 1)
    text = c_null_char
    fsnodename = c_fsnodename(node, text, size(text, kind=c_size_t))
    call blanks_behind(text, name)
  end function

  subroutine blanks_behind(text, name)
    character(kind=c_char), intent(in) :: text(:)
    character(len=*), intent(out) :: name
    integer :: i
    name = ""
    do i = 1, len(name)
      if (text(i) == c_null_char) exit
      name(i:i) = text(i)
    end do
  end subroutine

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
