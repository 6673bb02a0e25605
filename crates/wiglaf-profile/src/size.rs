//! How many bytes a call is about. Only arguments that MPI reads as well, at this rank, are looked at: others
//! may hold anything.

use std::ffi::{c_int, c_void};
use std::mem;

use wiglaf_interpose::Next;

/// An argument that is handed on unseen.
pub(crate) type Any = *mut c_void;

/// How arguments come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// Values and handles as they are.
    C,
    /// So, and counts have 64 bits.
    #[cfg_attr(not(feature = "mpi4"), expect(dead_code, reason = "no function is of it"))]
    Large,
    /// The addresses of all.
    Fortran,
}

type Query = unsafe extern "C" fn(Any, *mut c_int) -> c_int;
type FortranQuery = unsafe extern "C" fn(Any, *mut c_int, *mut c_int) -> c_int;

impl Language {
    /// An integer argument.
    ///
    /// # Safety
    /// The argument must be one in MPI's interface.
    pub(crate) unsafe fn int(self, argument: Any) -> i64 {
        match self {
            // The upper half of the register may hold anything.
            Self::C | Self::Large => i64::from(argument.addr() as c_int),
            Self::Fortran if argument.is_null() => 0,
            // SAFETY: the caller's promise: the address of an INTEGER.
            Self::Fortran => i64::from(unsafe { argument.cast::<c_int>().read_unaligned() }),
        }
    }

    /// A count of elements.
    ///
    /// # Safety
    /// The argument must be one in MPI's interface.
    unsafe fn count(self, argument: Any) -> i64 {
        match self {
            Self::Large => argument.addr() as i64,
            // SAFETY: the caller's promise.
            Self::C | Self::Fortran => unsafe { self.int(argument) },
        }
    }

    /// Asks MPI for a number that belongs to a handle; 0 where it does not say.
    ///
    /// # Safety
    /// The functions must be of that kind, and the handle one that they take.
    unsafe fn ask(self, handle: Any, c: &Next, fortran: &Next) -> i64 {
        let (mut answer, mut error) = (0, 0);
        match self {
            Self::C | Self::Large => {
                // SAFETY: the caller's promise; the answer is written to a live variable.
                let query = unsafe { mem::transmute::<Any, Query>(c.address()) };
                // SAFETY: as above.
                error = unsafe { query(handle, &raw mut answer) };
            }
            Self::Fortran => {
                let found = fortran.or_null();
                if found.is_null() {
                    return 0;
                }
                // SAFETY: the caller's promise; both are written to live variables.
                let query = unsafe { mem::transmute::<Any, FortranQuery>(found) };
                // SAFETY: as above.
                unsafe { query(handle, &raw mut answer, &raw mut error) };
            }
        }
        if error == 0 { i64::from(answer) } else { 0 }
    }

    /// The bytes of an element.
    ///
    /// # Safety
    /// The argument must be a datatype.
    unsafe fn type_size(self, datatype: Any) -> i64 {
        static C: Next = Next::new(crate::NAME, "PMPI_Type_size\0");
        static FORTRAN: Next = Next::new(crate::NAME, "pmpi_type_size_\0");
        // SAFETY: the caller's promise.
        unsafe { self.ask(datatype, &C, &FORTRAN) }
    }

    /// # Safety
    /// The argument must be a communicator.
    pub(crate) unsafe fn rank(self, comm: Any) -> i64 {
        static C: Next = Next::new(crate::NAME, "PMPI_Comm_rank\0");
        static FORTRAN: Next = Next::new(crate::NAME, "pmpi_comm_rank_\0");
        // SAFETY: the caller's promise.
        unsafe { self.ask(comm, &C, &FORTRAN) }
    }

    /// # Safety
    /// The argument must be a communicator.
    pub(crate) unsafe fn ranks(self, comm: Any) -> i64 {
        static C: Next = Next::new(crate::NAME, "PMPI_Comm_size\0");
        static FORTRAN: Next = Next::new(crate::NAME, "pmpi_comm_size_\0");
        // SAFETY: the caller's promise.
        unsafe { self.ask(comm, &C, &FORTRAN) }
    }

    /// How many counts there are in an array of one for each rank; 0 for a communicator of two groups.
    ///
    /// # Safety
    /// The argument must be a communicator.
    unsafe fn counts(self, comm: Any) -> usize {
        static C: Next = Next::new(crate::NAME, "PMPI_Comm_size\0");
        static FORTRAN: Next = Next::new(crate::NAME, "pmpi_comm_size_\0");
        static C_INTER: Next = Next::new(crate::NAME, "PMPI_Comm_test_inter\0");
        static FORTRAN_INTER: Next = Next::new(crate::NAME, "pmpi_comm_test_inter_\0");
        // SAFETY: the caller's promise.
        let (is_inter, size) =
            unsafe { (self.ask(comm, &C_INTER, &FORTRAN_INTER), self.ask(comm, &C, &FORTRAN)) };
        if is_inter == 0 { usize::try_from(size).unwrap_or(0) } else { 0 }
    }

    /// Bytes of a count of elements.
    ///
    /// # Safety
    /// The arguments must be a count and a datatype, both of meaning in this call.
    pub(crate) unsafe fn of(self, count: Any, datatype: Any) -> u64 {
        // SAFETY: the caller's promise.
        let count = unsafe { self.count(count) };
        if count <= 0 {
            return 0;
        }
        // SAFETY: the caller's promise.
        (count as u64).saturating_mul(unsafe { self.type_size(datatype) }.max(0) as u64)
    }

    /// Bytes of what goes from or to a root: that rank's arguments are others.
    ///
    /// # Safety
    /// As for [`Self::of`], those of the root at the root.
    pub(crate) unsafe fn rooted(
        self,
        root: Any,
        comm: Any,
        at_root: [Any; 2],
        others: [Any; 2],
    ) -> u64 {
        // SAFETY: the caller's promise. Negative roots are of communicators of two groups.
        let (root, rank) = unsafe { (self.int(root), self.rank(comm)) };
        let [count, datatype] = match root {
            ..0 => return 0,
            root if root == rank => at_root,
            _ => others,
        };
        // SAFETY: the caller's promise.
        unsafe { self.of(count, datatype) }
    }

    /// Bytes of an array of counts.
    ///
    /// # Safety
    /// The arguments must be an array of a count for each rank of the communicator, and their datatype.
    pub(crate) unsafe fn sum(self, counts: Any, datatype: Any, comm: Any) -> u64 {
        // SAFETY: the caller's promise.
        let len = unsafe { self.counts(comm) };
        if counts.is_null() || len == 0 {
            return 0;
        }
        let at = |i: usize| {
            // SAFETY: the caller's promise: so many counts are there.
            unsafe {
                match self {
                    Self::Large => counts.cast::<i64>().add(i).read_unaligned(),
                    _ => i64::from(counts.cast::<c_int>().add(i).read_unaligned()),
                }
            }
        };
        let all: i64 = (0..len).map(at).map(|count| count.max(0)).sum();
        if all == 0 {
            return 0;
        }
        // SAFETY: the caller's promise.
        (all as u64).saturating_mul(unsafe { self.type_size(datatype) }.max(0) as u64)
    }
}
