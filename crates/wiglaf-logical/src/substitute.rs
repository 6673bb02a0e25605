//! Which handles a call gets in place of the program's.

use std::sync::Once;

use crate::handles::{self, Handle};
use crate::{operation, setting};

/// The handles that a call shall have: of its datatypes, and of its operation.
pub(crate) type Handles<const N: usize> = ([Handle; N], Handle);

/// What a reduction must get instead, if anything.
pub(crate) fn reduction(datatypes: [Handle; 1], operation: Handle) -> Option<Handles<1>> {
    let logical = handles::logical(operation).filter(|_| handles::is_logical(datatypes[0]))?;
    setting::true_is_minus_one().then(|| (datatypes, operation::handle(logical)))
}

/// What an accumulate must get instead, if anything.
///
/// MPI takes no operation of ours there. Bitwise operations do the same to 0
/// and -1, and MPI takes them for INTEGERs of the same size.
pub(crate) fn accumulate<const N: usize>(
    datatypes: [Handle; N],
    operation: Handle,
) -> Option<Handles<N>> {
    let bitwise = handles::bitwise(operation).filter(|_| setting::true_is_minus_one())?;
    let integers = datatypes.map(handles::integer);
    if integers.contains(&None) {
        complain_about_others();
        return None;
    }
    Some((integers.map(Option::unwrap_or_default), bitwise))
}

fn complain_about_others() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        wiglaf_interpose::complain(
            crate::NAME,
            "a logical accumulate of other datatypes than LOGICAL is left as it is; if they are \
             made of LOGICALs, its result has 1 for .TRUE.",
        );
    });
}
