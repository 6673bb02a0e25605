! The module `mpi`, made of what every compiler reads. Calls go unchecked.
module mpi
  include 'mpif.h'
end module
