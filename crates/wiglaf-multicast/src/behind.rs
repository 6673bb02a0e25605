//! The MPI behind this library: its functions by their profiling names, and the values of its handles.
//!
//! Handles are addresses in Open MPI and numbers in the MPICH family; both travel in a register of eight bytes on
//! x86-64, so they are handed on unseen.

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::OnceLock;

use wiglaf_interpose::{Next, object};

use crate::NAME;

/// A handle or an address.
pub(crate) type Any = *mut c_void;

/// `MPI_SUCCESS`, in every MPI.
pub(crate) const SUCCESS: c_int = 0;

macro_rules! behind {
    ($($(#[$what:meta])* $name:ident $symbol:literal ($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            $(#[$what])*
            ///
            /// # Safety
            /// The arguments follow MPI's interface for the function of that name.
            #[allow(clippy::too_many_arguments, reason = "MPI's own")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                static NEXT: Next = Next::new(NAME, concat!($symbol, "\0"));
                // SAFETY: the address is that of the function of that name, whose interface MPI fixes.
                let function = unsafe { mem::transmute::<Any, Function>(NEXT.address()) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

behind! {
    /// `MPI_Barrier`.
    barrier "PMPI_Barrier" (comm: Any) -> c_int;
    /// `MPI_Bcast`.
    bcast "PMPI_Bcast" (buffer: Any, count: c_int, datatype: Any, root: c_int, comm: Any) -> c_int;
    /// `MPI_Allreduce`.
    allreduce "PMPI_Allreduce" (send: Any, receive: Any, count: c_int, datatype: Any, op: Any, comm: Any) -> c_int;
    /// `MPI_Allgather`.
    allgather "PMPI_Allgather" (
        send: Any, send_count: c_int, send_type: Any, receive: Any, count: c_int, datatype: Any, comm: Any
    ) -> c_int;
    /// `MPI_Gather`.
    gather "PMPI_Gather" (
        send: Any, send_count: c_int, send_type: Any, receive: Any, count: c_int, datatype: Any, root: c_int, comm: Any
    ) -> c_int;
    /// `MPI_Reduce`.
    reduce "PMPI_Reduce" (
        send: Any, receive: Any, count: c_int, datatype: Any, op: Any, root: c_int, comm: Any
    ) -> c_int;
    /// `MPI_Op_commutative`.
    op_commutative "PMPI_Op_commutative" (op: Any, commutes: *mut c_int) -> c_int;
    /// `MPI_Comm_split`.
    comm_split "PMPI_Comm_split" (comm: Any, color: c_int, key: c_int, new: *mut Any) -> c_int;
    /// `MPI_Comm_free`.
    comm_free "PMPI_Comm_free" (comm: *mut Any) -> c_int;
    /// `MPI_Comm_disconnect`.
    comm_disconnect "PMPI_Comm_disconnect" (comm: *mut Any) -> c_int;
    /// `MPI_Finalize`.
    finalize "PMPI_Finalize" () -> c_int;
    /// `MPI_Abort`.
    abort "PMPI_Abort" (comm: Any, code: c_int) -> c_int;
    /// `MPI_Comm_size`.
    comm_size "PMPI_Comm_size" (comm: Any, size: *mut c_int) -> c_int;
    /// `MPI_Comm_rank`.
    comm_rank "PMPI_Comm_rank" (comm: Any, rank: *mut c_int) -> c_int;
    /// `MPI_Comm_test_inter`.
    comm_test_inter "PMPI_Comm_test_inter" (comm: Any, flag: *mut c_int) -> c_int;
    /// `MPI_Comm_create_keyval`.
    comm_create_keyval "PMPI_Comm_create_keyval" (
        copy: CopyAttribute, delete: DeleteAttribute, keyval: *mut c_int, extra: Any
    ) -> c_int;
    /// `MPI_Comm_get_attr`.
    comm_get_attr "PMPI_Comm_get_attr" (comm: Any, keyval: c_int, value: *mut Any, flag: *mut c_int) -> c_int;
    /// `MPI_Comm_set_attr`.
    comm_set_attr "PMPI_Comm_set_attr" (comm: Any, keyval: c_int, value: Any) -> c_int;
    /// `MPI_Type_size`.
    type_size "PMPI_Type_size" (datatype: Any, size: *mut c_int) -> c_int;
    /// `MPI_Type_get_extent`.
    type_extent "PMPI_Type_get_extent" (datatype: Any, lower: *mut isize, extent: *mut isize) -> c_int;
    /// `MPI_Type_get_true_extent`.
    type_true_extent "PMPI_Type_get_true_extent" (datatype: Any, lower: *mut isize, extent: *mut isize) -> c_int;
    /// `MPI_Type_get_envelope`.
    type_envelope "PMPI_Type_get_envelope" (
        datatype: Any, integers: *mut c_int, addresses: *mut c_int, datatypes: *mut c_int, combiner: *mut c_int
    ) -> c_int;
    /// `MPI_Pack`.
    pack "PMPI_Pack" (
        from: Any, count: c_int, datatype: Any, to: Any, len: c_int, position: *mut c_int, comm: Any
    ) -> c_int;
    /// `MPI_Unpack`.
    unpack "PMPI_Unpack" (
        from: Any, len: c_int, position: *mut c_int, to: Any, count: c_int, datatype: Any, comm: Any
    ) -> c_int;
    /// `MPI_Reduce_local`.
    reduce_local "PMPI_Reduce_local" (from: Any, into: Any, count: c_int, datatype: Any, op: Any) -> c_int;
    /// `MPI_Iprobe`.
    iprobe "PMPI_Iprobe" (source: c_int, tag: c_int, comm: Any, flag: *mut c_int, status: Any) -> c_int;
    /// `MPI_Comm_f2c`, of Open MPI.
    comm_f2c "PMPI_Comm_f2c" (handle: c_int) -> Any;
    /// `MPI_Type_f2c`, of Open MPI.
    type_f2c "PMPI_Type_f2c" (handle: c_int) -> Any;
    /// `MPI_Op_f2c`, of Open MPI.
    op_f2c "PMPI_Op_f2c" (handle: c_int) -> Any;
}

/// `MPI_Comm_copy_attr_function`.
pub(crate) type CopyAttribute =
    unsafe extern "C" fn(Any, c_int, Any, Any, Any, *mut c_int) -> c_int;
/// `MPI_Comm_delete_attr_function`.
pub(crate) type DeleteAttribute = unsafe extern "C" fn(Any, c_int, Any, Any) -> c_int;

/// What differs between the families of MPIs.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) is_open_mpi: bool,
    byte: usize,
    no_type: usize,
    world: usize,
    in_place: usize,
    /// Where Fortran's MPI_IN_PLACE and MPI_BOTTOM of Open MPI are; 0 where the program has no Fortran.
    fortran_in_place: usize,
    fortran_bottom: usize,
}

impl Family {
    /// That of the program's MPI. The values are part of the ABIs: `mpi.h` of Open MPI 4 to 6 and of MPICH 4 and 5.
    pub(crate) fn get() -> &'static Self {
        static FAMILY: OnceLock<Family> = OnceLock::new();
        FAMILY.get_or_init(|| {
            let byte = object(c"ompi_mpi_byte").expose_provenance();
            if byte == 0 {
                return Self {
                    is_open_mpi: false,
                    byte: 0x4c00_010d,
                    no_type: 0x0c00_0000,
                    world: 0x4400_0000,
                    in_place: usize::MAX,
                    fortran_in_place: 0,
                    fortran_bottom: 0,
                };
            }
            Self {
                is_open_mpi: true,
                byte,
                no_type: object(c"ompi_mpi_datatype_null").expose_provenance(),
                world: object(c"ompi_mpi_comm_world").expose_provenance(),
                in_place: 1,
                fortran_in_place: object(c"mpi_fortran_in_place_").expose_provenance(),
                fortran_bottom: object(c"mpi_fortran_bottom_").expose_provenance(),
            }
        })
    }

    /// `MPI_BYTE`.
    pub(crate) fn byte(&self) -> Any {
        std::ptr::with_exposed_provenance_mut(self.byte)
    }

    /// Whether a datatype is `MPI_DATATYPE_NULL`, which no question may be asked about.
    pub(crate) fn is_no_type(&self, datatype: Any) -> bool {
        datatype.addr() == self.no_type
    }

    /// `MPI_COMM_WORLD`.
    pub(crate) fn world(&self) -> Any {
        std::ptr::with_exposed_provenance_mut(self.world)
    }

    /// Whether a buffer is `MPI_IN_PLACE`.
    pub(crate) fn is_in_place(&self, buffer: Any) -> bool {
        buffer.addr() == self.in_place
    }

    /// A Fortran program's buffer as C has it.
    pub(crate) fn of_fortran(&self, buffer: Any) -> Any {
        match buffer.addr() {
            at if at != 0 && at == self.fortran_in_place => {
                std::ptr::with_exposed_provenance_mut(self.in_place)
            }
            at if at != 0 && at == self.fortran_bottom => std::ptr::null_mut(),
            _ => buffer,
        }
    }
}
