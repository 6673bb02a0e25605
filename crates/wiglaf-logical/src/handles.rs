//! What the Fortran handles of the MPI families stand for.
//!
//! The numbers are part of each family's ABI: compiled programs hold them.
//! Those of Open MPI (`mpif-handles.h`, 4.1 and 5.0) are small, those of the
//! MPICH family (`mpif.h` and `mpi.h`, 4.0 to 5.0, Intel MPI) carry a mark in
//! their high bits, so a number tells its family.

/// A handle as Fortran holds it.
pub(crate) type Handle = i32;

/// A logical operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    And,
    Or,
    Xor,
}

/// (logical operation, its handle, the handle of the bitwise one)
const OPERATIONS: [(Logical, Handle, Handle); 6] = [
    // Open MPI.
    (Logical::And, 5, 6),
    (Logical::Or, 7, 8),
    (Logical::Xor, 9, 10),
    // MPICH.
    (Logical::And, 0x5800_0005, 0x5800_0006),
    (Logical::Or, 0x5800_0007, 0x5800_0008),
    (Logical::Xor, 0x5800_0009, 0x5800_000a),
];

/// (LOGICAL, INTEGER of the same size, that size in bytes if it is fixed)
const DATATYPES: [(Handle, Handle, Option<usize>); 10] = [
    // Open MPI: LOGICAL, LOGICAL1, 2, 4, 8. Fortran gives the default kinds one size.
    (6, 7, None),
    (29, 8, Some(1)),
    (30, 9, Some(2)),
    (31, 10, Some(4)),
    (32, 11, Some(8)),
    // MPICH: LOGICAL; from 5.0 LOGICAL1, 2, 4, 8.
    (0x4c00_041d, 0x4c00_041b, None),
    (0x4c00_0147, 0x4c00_012d, Some(1)),
    (0x4c00_0248, 0x4c00_022f, Some(2)),
    (0x4c00_0449, 0x4c00_0430, Some(4)),
    (0x4c00_084a, 0x4c00_0831, Some(8)),
];

/// The logical operation that a handle stands for.
pub(crate) fn logical(operation: Handle) -> Option<Logical> {
    OPERATIONS.iter().find(|(_, handle, _)| *handle == operation).map(|(logical, ..)| *logical)
}

/// The bitwise operation that does the same to 0 and -1.
pub(crate) fn bitwise(operation: Handle) -> Option<Handle> {
    OPERATIONS.iter().find(|(_, handle, _)| *handle == operation).map(|(.., bitwise)| *bitwise)
}

/// Whether a handle stands for a LOGICAL.
pub(crate) fn is_logical(datatype: Handle) -> bool {
    integer(datatype).is_some()
}

/// The INTEGER of the size of a LOGICAL.
pub(crate) fn integer(datatype: Handle) -> Option<Handle> {
    DATATYPES.iter().find(|(handle, ..)| *handle == datatype).map(|(_, integer, _)| *integer)
}

/// The size of a LOGICAL whose name says it.
pub(crate) fn fixed_size_bytes(datatype: Handle) -> Option<usize> {
    DATATYPES.iter().find(|(handle, ..)| *handle == datatype).and_then(|(.., size)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_do_not_overlap() {
        for (i, (_, handle, _)) in OPERATIONS.iter().enumerate() {
            assert!(OPERATIONS[..i].iter().all(|(_, h, b)| h != handle && b != handle));
        }
        for (i, (handle, ..)) in DATATYPES.iter().enumerate() {
            assert!(DATATYPES[..i].iter().all(|(h, n, _)| h != handle && n != handle));
        }
    }

    #[test]
    fn other_handles_are_left_alone() {
        // MPI_SUM and MPI_BAND; MPI_INTEGER and MPI_CHARACTER.
        for operation in [3, 6, 0x5800_0003, 0x5800_0006, 0, -1] {
            assert!(logical(operation).is_none() && bitwise(operation).is_none());
        }
        for datatype in [7, 5, 0x4c00_041b, 0x4c00_011a, 0, -1] {
            assert!(!is_logical(datatype));
        }
    }

    #[test]
    fn mpich_handles_carry_their_size() {
        for (handle, integer, size) in DATATYPES.iter().filter(|(handle, ..)| *handle > 100) {
            assert_eq!((handle >> 8) & 0xff, (integer >> 8) & 0xff);
            assert!(size.is_none_or(|size| size as Handle == (handle >> 8) & 0xff));
        }
    }
}
