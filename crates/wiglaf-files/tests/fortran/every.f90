! Every procedure of the module, each with a look at what it did.
! Usage: every FOLDER. The folder has a link `link` to a file `file` of 10 bytes.
program every
  use, intrinsic :: iso_c_binding
  use wiglaf_files
  implicit none
  integer, parameter :: enoent = 2, erange = 34
  character(len=512) :: folder
  integer(c_int) :: node

  call get_command_argument(1, folder)
  call need(fsinit() == 0, "fsinit")
  node = fsattach("elsewhere  ")
  call need(node >= 0, "fsattach")
  call nodes()
  call need(rchdir(node, folder) == 0, "rchdir")
  call names()
  call folders()
  call content()
  call pieces()
  call need(fsdetach(node) == 0, "fsdetach")
  call need(fsdetach(node) == -1, "fsdetach of what is detached")
  call need(fsend() == 0, "fsend")
  call need(fsend() == -1, "fsend of what has ended")
  print '(a)', "every one"

contains

  subroutine need(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    if (ok) return
    write (*, '(3a,i0,a)') what, ": ", fureason(), fuerrno(), " is the errno"
    error stop 1
  end subroutine

  subroutine nodes()
    character(len=9) :: name
    character(len=8) :: short
    call need(fsnodename(node, name) == 0, "fsnodename")
    call need(name == "elsewhere", "the node's name")
    call need(fsnodename(node, short) == -1, "fsnodename without room")
    call need(fuerrno() == erange, "fuerrno")
    call need(index(fureason(), "range") > 0, "fureason")
  end subroutine

  subroutine names()
    type(stat_t) :: st, link
    integer(c_int) :: handle
    call need(c_sizeof(st) == 144, "the length of stat_t")
    call need(rstat(node, "link", st) == 0, "rstat")
    call need(st%st_size == 10 .and. iand(st%st_mode, int(o'170000')) == int(o'100000'), "rstat's")
    call need(st%st_nlink == 1 .and. st%st_blksize > 0, "rstat's")
    call need(st%st_mtim%tv_sec == 1000000000 .and. st%st_mtim%tv_nsec == 5, "rstat's time")
    call need(st%st_ctim%tv_sec > st%st_mtim%tv_sec .and. st%st_blocks > 0, "rstat's")
    call need(rlstat(node, "link", link) == 0, "rlstat")
    call need(iand(link%st_mode, int(o'170000')) == int(o'120000'), "rlstat's")
    call need(link%st_ino /= st%st_ino .and. link%st_dev == st%st_dev, "rlstat's")
    call need(link%st_uid == st%st_uid .and. link%st_gid == st%st_gid, "rlstat's")
    call need(rsize(node, "file") == 10, "rsize")
    call need(rtruncate(node, "file", 4_c_int64_t) == 0, "rtruncate")
    call need(rsize(node, "file") == 4, "rtruncate's")
    call need(rrename(node, "file", "new") == 0, "rrename")
    call need(rsize(node, "file") == -1 .and. fuerrno() == enoent, "rrename's")
    handle = ropen(node, "new", o_rdonly)
    call need(handle >= 0, "ropen")
    call need(rfnode(handle) == node, "rfnode")
    call need(rfstat(handle, link) == 0, "rfstat")
    call need(link%st_ino == st%st_ino .and. link%st_size == 4, "rfstat's")
    call need(fsdetach(node) == -1, "fsdetach of what is used")
    call need(rclose(handle) == 0, "rclose")
    call need(rclose(handle) == -1, "rclose of what is closed")
    call need(runlink(node, "new") == 0, "runlink")
    call need(rsize(node, "new") == -1 .and. fuerrno() == enoent, "runlink's")
  end subroutine

  subroutine folders()
    type(stat_t) :: st
    character(len=6) :: name
    character(len=3) :: short
    integer(c_int) :: list
    integer :: seen, round
    call need(rmkdir(node, "d", int(o'700')) == 0, "rmkdir")
    call need(rstat(node, "d", st) == 0 .and. st%st_mode == int(o'40700'), "rmkdir's")
    call need(rmkdir(node, "d/within", int(o'700')) == 0, "rmkdir")
    list = ropendir(node, "d")
    call need(list >= 0, "ropendir")
    do round = 1, 2
      seen = 0
      do while (rreaddir(list, name) == 1)
        if (any(name == [character(len=6) :: ".", "..", "within"])) seen = seen + 1
      end do
      call need(seen == 3 .and. rreaddir(list, name) == 0 .and. name == "", "rreaddir")
      call need(rrewinddir(list) == 0, "rrewinddir")
    end do
    do while (rreaddir(list, short) == 1)
    end do
    call need(fuerrno() == erange, "rreaddir without room")
    call need(rreaddir(list, name) == 1 .and. name == "within", "rreaddir of what had no room")
    call need(rclosedir(list) == 0, "rclosedir")
    call need(rclosedir(list) == -1, "rclosedir of what is closed")
    call need(rrmdir(node, "d") == -1, "rrmdir of what is not empty")
    call need(rrmdir(node, "d/within") == 0 .and. rrmdir(node, "d") == 0, "rrmdir")
    call need(rstat(node, "d", st) == -1 .and. fuerrno() == enoent, "rrmdir's")
  end subroutine

  subroutine content()
    integer(c_int8_t), target :: out(100), back(100)
    integer(c_int) :: handle, request
    integer :: i
    out = [(int(i, c_int8_t), i = 1, 100)]
    handle = ropenm(node, "c", ior(o_rdwr, ior(o_creat, o_excl)), int(o'600'))
    call need(handle >= 0, "ropenm")
    call need(mode_of("c") == int(o'100600'), "ropenm's mode")
    call need(rahead(handle, 65536_c_size_t) == 0, "rahead")
    call need(rbehind(handle, 65536_c_size_t) == 0, "rbehind")
    call need(rwrite(handle, c_loc(out), 60_c_size_t) == 60, "rwrite")
    call need(rlseek(handle, 0_c_int64_t, seek_cur) == 60, "rlseek")
    call need(rpwrite(handle, c_loc(out(61)), 40_c_size_t, 60_c_int64_t) == 40, "rpwrite")
    call need(rfdatasync(handle) == 0 .and. rfsync(handle) == 0, "rfdatasync, rfsync")
    call need(rlseek(handle, -100_c_int64_t, seek_end) == 0, "rlseek")
    back = 0
    call need(rread(handle, c_loc(back), 50_c_size_t) == 50, "rread")
    call need(rpread(handle, c_loc(back(51)), 99_c_size_t, 50_c_int64_t) == 50, "rpread")
    call need(all(back == out), "what was read")
    back = 0
    request = raread(handle, c_loc(back), 100_c_size_t, 90_c_int64_t)
    call need(request >= 0, "raread")
    do while (rtest(request) == 0)
    end do
    call need(rtest(request) == 1 .and. rwait(request) == 10, "rtest, rwait")
    call need(rtest(request) == -1, "rtest of what has ended")
    call need(all(back(:10) == out(91:)) .and. all(back(11:) == 0), "what raread read")
    call need(rftruncate(handle, 2_c_int64_t**33) == 0, "rftruncate")
    call need(rsize(node, "c") == 2_c_int64_t**33, "rftruncate's")
    call need(rclose(handle) == 0 .and. runlink(node, "c") == 0, "runlink")
  end subroutine

  integer function mode_of(path)
    character(len=*), intent(in) :: path
    type(stat_t) :: st
    call need(rstat(node, path, st) == 0, "rstat")
    mode_of = st%st_mode
  end function

  subroutine pieces()
    character(kind=c_char), target :: first(3), second(4)
    type(iovec_t) :: both(2)
    integer(c_int) :: handle
    both = [iovec_t(c_loc(first), 3), iovec_t(c_loc(second), 4)]
    first = ["a", "b", "c"]
    second = ["d", "e", "f", "g"]
    handle = ropen(node, "p", ior(o_rdwr, o_creat))
    call need(rwritev(handle, both, 2) == 7, "rwritev")
    call need(rlseek(handle, 1_c_int64_t, seek_set) == 1, "rlseek")
    call need(rreadv(handle, both, 2) == 6, "rreadv")
    call need(all(first == ["b", "c", "d"]) .and. all(second == ["e", "f", "g", "g"]), "rreadv's")
    call need(rclose(handle) == 0 .and. runlink(node, "p") == 0, "runlink")
  end subroutine

end program every
