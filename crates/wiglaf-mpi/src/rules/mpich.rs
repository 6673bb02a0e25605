//! MPICH's own choice of algorithms, with rules put into it.
//!
//! MPICH 4 and 5 keep their choice as a tree of conditions, a JSON text in the library, of which the first condition that
//! holds counts. `MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE` names a file that is taken in its place, and as a whole: an
//! operation that the file does not speak of ends the job. So a file of ours is the library's own text, in which the
//! subtree of an operation within one communicator is asked for the sizes that were measured first.

use std::ops::Range;

use wiglaf_base::error::{Error, Result};

use super::{Lengths, Operation, Rules};

/// What an algorithm must be given to be right; where it is not, the own choice is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// An operation of MPI's own, and as many elements as there are ranks in the greatest power of two.
    BuiltIn,
    /// Vectors in two places.
    TwoPlaces,
    /// A power of two of ranks.
    PowerOfTwo,
}

/// An algorithm of MPICH's.
#[derive(Debug)]
struct Algorithm {
    /// As in the variables `MPIR_CVAR_…_INTRA_ALGORITHM`.
    name: &'static str,
    /// As in the tree.
    function: &'static str,
    needs: Needs,
}

const fn is(name: &'static str, function: &'static str, needs: Needs) -> Algorithm {
    Algorithm { name, function, needs }
}

const BCAST: [Algorithm; 4] = [
    is("binomial", "MPIR_Bcast_intra_binomial", Needs::Nothing),
    is("nb", "MPIR_Bcast_allcomm_nb", Needs::Nothing),
    is(
        "scatter_recursive_doubling_allgather",
        "MPIR_Bcast_intra_scatter_recursive_doubling_allgather",
        Needs::PowerOfTwo,
    ),
    is("scatter_ring_allgather", "MPIR_Bcast_intra_scatter_ring_allgather", Needs::Nothing),
];
const REDUCE: [Algorithm; 3] = [
    is("binomial", "MPIR_Reduce_intra_binomial", Needs::Nothing),
    is("nb", "MPIR_Reduce_allcomm_nb", Needs::Nothing),
    is("reduce_scatter_gather", "MPIR_Reduce_intra_reduce_scatter_gather", Needs::BuiltIn),
];
const ALLREDUCE: [Algorithm; 3] = [
    is("recursive_doubling", "MPIR_Allreduce_intra_recursive_doubling", Needs::Nothing),
    is("nb", "MPIR_Allreduce_allcomm_nb", Needs::Nothing),
    is("reduce_scatter_allgather", "MPIR_Allreduce_intra_reduce_scatter_allgather", Needs::BuiltIn),
];
const ALLGATHER: [Algorithm; 4] = [
    is("brucks", "MPIR_Allgather_intra_brucks", Needs::Nothing),
    is("nb", "MPIR_Allgather_allcomm_nb", Needs::Nothing),
    is("recursive_doubling", "MPIR_Allgather_intra_recursive_doubling", Needs::PowerOfTwo),
    is("ring", "MPIR_Allgather_intra_ring", Needs::Nothing),
];
const ALLTOALL: [Algorithm; 4] = [
    is("brucks", "MPIR_Alltoall_intra_brucks", Needs::TwoPlaces),
    is("nb", "MPIR_Alltoall_allcomm_nb", Needs::TwoPlaces),
    is("pairwise", "MPIR_Alltoall_intra_pairwise", Needs::TwoPlaces),
    is("scattered", "MPIR_Alltoall_intra_scattered", Needs::TwoPlaces),
];

/// Those that rules are for: each has algorithms to choose from that are right for most inputs.
pub const OPERATIONS: [Operation; 5] = [
    Operation::Bcast,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::Allgather,
    Operation::Alltoall,
];

/// The algorithms of an operation. Their numbers in [`Rules`] count from 1.
fn algorithms(operation: Operation) -> &'static [Algorithm] {
    match operation {
        Operation::Bcast => &BCAST,
        Operation::Reduce => &REDUCE,
        Operation::Allreduce => &ALLREDUCE,
        Operation::Allgather => &ALLGATHER,
        Operation::Alltoall => &ALLTOALL,
        Operation::Barrier | Operation::Gather | Operation::ReduceScatter | Operation::Scatter => {
            &[]
        }
    }
}

/// The names of all algorithms by operation, such as `bcast:binomial,nb;reduce:binomial`: MPICH's variables tell none.
#[must_use]
pub fn names() -> String {
    let of = |operation: Operation| {
        let names: Vec<&str> = algorithms(operation).iter().map(|one| one.name).collect();
        format!("{}:{}", operation.name(), names.join(","))
    };
    OPERATIONS.map(of).join(";")
}

/// The text in a library of MPICH's, where there is one of the form that is known here.
#[must_use]
pub fn own_choice(library: &[u8]) -> Option<&str> {
    const BEGIN: &[u8] = br#"{"collective=bcast":"#;
    // The layers below have texts of their own, in which other functions stand.
    const OURS: &str = r#""algorithm=MPIR_Bcast_intra_binomial":"#;
    memchr::memmem::find_iter(library, BEGIN).find_map(|at| {
        let end = at + memchr::memchr(0, &library[at..])?;
        let text = std::str::from_utf8(&library[at..end]).ok()?;
        text.contains(OURS).then_some(text)
    })
}

/// The own choice with rules in it: the text of a file for `MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE`.
///
/// # Errors
/// When the own choice is not of the form that is known here, or a rule names what it does not know.
pub fn choice_with(own: &str, rules: &Rules) -> Result<String> {
    let mut text = own.to_owned();
    for operation in Operation::ALL {
        let sizes: Vec<(usize, &[(u64, u32)])> = rules
            .table()
            .filter(|(one, _, _)| *one == operation)
            .map(|(_, ranks, lengths)| (ranks, lengths))
            .collect();
        if sizes.is_empty() {
            continue;
        }
        let unknown = || {
            let name = operation.name();
            Error::new(format!(
                "this MPICH's own choice for {name} is not of the form that is known"
            ))
        };
        let at = subtree(&text, operation).ok_or_else(unknown)?;
        let new = by_size(operation, &text[at.clone()], &sizes).ok_or_else(unknown)?;
        text.replace_range(at, &new);
    }
    Ok(text)
}

/// Where the choice for an operation within one communicator stands.
fn subtree(text: &str, operation: Operation) -> Option<Range<usize>> {
    let whole = value(text, &format!("collective={}", operation.name()))?;
    let within = value(&text[whole.clone()], "comm_type=intra")?;
    Some(whole.start + within.start..whole.start + within.end)
}

/// Where the object stands that an object has under `key`. Texts in it have no braces and no quotes.
fn value(object: &str, key: &str) -> Option<Range<usize>> {
    let key = format!("\"{key}\":");
    let (mut depth, mut begin) = (0_usize, None);
    for (at, byte) in object.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if let Some(begin) = begin.filter(|_| depth == 1) {
                    return Some(begin..at + 1);
                }
            }
            b'"' if depth == 1 && object[at..].starts_with(&key) => {
                let behind = at + key.len();
                begin = Some(behind).filter(|_| object[behind..].starts_with('{'));
                begin?;
            }
            _ => {}
        }
    }
    None
}

/// The own choice but for communicators of the measured sizes. None where a rule is not known.
fn by_size(operation: Operation, own: &str, sizes: &[(usize, &[(u64, u32)])]) -> Option<String> {
    let mut parts = Vec::new();
    for (ranks, lengths) in sizes {
        parts.push((format!("comm_size<{ranks}"), own.to_owned()));
        parts.push((format!("comm_size<={ranks}"), by_length(operation, own, *ranks, lengths)?));
    }
    parts.push(("comm_size=any".to_owned(), own.to_owned()));
    Some(object(&parts))
}

fn by_length(
    operation: Operation,
    own: &str,
    ranks: usize,
    lengths: &[(u64, u32)],
) -> Option<String> {
    // Of a gathering MPICH knows the length of what all send alone, and asking for another ends the job.
    let (what, times) = match operation {
        Operation::Allgather => ("total_msg_size", u64::try_from(ranks).ok()?),
        _ => ("avg_msg_size", 1),
    };
    // It reads them as an int.
    let end = |len: u64| len.checked_mul(times).filter(|end| i32::try_from(*end).is_ok());
    let ends = lengths.iter().skip(1).map(|(len, _)| Some(format!("{what}<{}", end(*len)?)));
    let ends = ends.chain(std::iter::once(Some(format!("{what}=any"))));
    let parts = ends
        .zip(lengths)
        .map(|(end, (_, algorithm))| Some((end?, taken(operation, own, ranks, *algorithm)?)));
    Some(object(&parts.collect::<Option<Vec<_>>>()?))
}

/// The algorithm of that number wherever it is right.
fn taken(operation: Operation, own: &str, ranks: usize, number: u32) -> Option<String> {
    let Some(index) = usize::try_from(number).ok()?.checked_sub(1) else {
        return Some(own.to_owned());
    };
    let Algorithm { function, needs, .. } = algorithms(operation).get(index)?;
    let it = format!(r#"{{"algorithm={function}":{{}}}}"#);
    Some(match needs {
        Needs::Nothing => it,
        Needs::PowerOfTwo if ranks.is_power_of_two() => it,
        Needs::PowerOfTwo => own.to_owned(),
        Needs::TwoPlaces => {
            format!(r#"{{"is_sendbuf_inplace=yes":{own},"is_sendbuf_inplace=no":{it}}}"#)
        }
        Needs::BuiltIn => format!(
            r#"{{"is_op_built_in=no":{own},"is_op_built_in=yes":{{"count<pow2":{own},"count=any":{it}}}}}"#
        ),
    })
}

fn object(parts: &[(String, String)]) -> String {
    let parts: Vec<String> =
        parts.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", parts.join(","))
}

/// Whether rules of these lengths name algorithms that are known.
pub(super) fn are_known(operation: Operation, lengths: &Lengths) -> bool {
    let most = u32::try_from(algorithms(operation).len()).unwrap_or(0);
    lengths.iter().all(|(_, algorithm)| *algorithm <= most)
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    const OWN: &str = r#"{"collective=bcast":{"comm_type=intra":{"a=any":{"algorithm=MPIR_Bcast_intra_binomial":{}}},"comm_type=inter":{"algorithm=b":{}}},"collective=allreduce":{"comm_type=intra":{"algorithm=c":{}}},"collective=alltoall":{"comm_type=intra":{"algorithm=d":{}}},"collective=allgather":{"comm_type=intra":{"algorithm=e":{}}}}"#;

    fn rules(of: &[(Operation, usize, Lengths)]) -> Rules {
        let shape = Shape { mpi: "MPICH 5.0.2".to_owned(), ..Shape::default() };
        let mut rules = Rules::new(shape, Vec::new());
        for (operation, ranks, lengths) in of {
            rules.add(*operation, *ranks, lengths.clone()).unwrap();
        }
        rules
    }

    #[test]
    fn rules_stand_before_the_own_choice_which_is_whole_everywhere_else() {
        assert_eq!(choice_with(OWN, &rules(&[])).unwrap(), OWN);
        let both = rules(&[
            (Operation::Bcast, 4, vec![(0, 0), (1024, 2), (65_536, 0)]),
            (Operation::Bcast, 3, vec![(0, 3)]),
        ]);
        let own = r#"{"a=any":{"algorithm=MPIR_Bcast_intra_binomial":{}}}"#;
        let nb = r#"{"algorithm=MPIR_Bcast_allcomm_nb":{}}"#;
        // Of three ranks an algorithm for powers of two is not taken.
        let wanted = format!(
            "{{\"comm_size<3\":{own},\"comm_size<=3\":{{\"avg_msg_size=any\":{own}}},\"comm_size<4\":{own},\
             \"comm_size<=4\":{{\"avg_msg_size<1024\":{own},\"avg_msg_size<65536\":{nb},\"avg_msg_size=any\":{own}}},\
             \"comm_size=any\":{own}}}"
        );
        assert_eq!(choice_with(OWN, &both).unwrap(), OWN.replacen(own, &wanted, 1));
    }

    #[test]
    fn an_algorithm_is_taken_only_where_it_is_right() {
        let text = choice_with(
            OWN,
            &rules(&[
                (Operation::Allreduce, 4, vec![(0, 3)]),
                (Operation::Alltoall, 4, vec![(0, 1)]),
                (Operation::Allgather, 4, vec![(0, 0), (1000, 4)]),
            ]),
        );
        let text = text.unwrap();
        for part in [
            r#""is_op_built_in=no":{"algorithm=c":{}},"is_op_built_in=yes":{"count<pow2":{"algorithm=c":{}},"count=any":{"algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather":{}}}"#,
            r#""is_sendbuf_inplace=yes":{"algorithm=d":{}},"is_sendbuf_inplace=no":{"algorithm=MPIR_Alltoall_intra_brucks":{}}"#,
            r#""total_msg_size<4000":{"algorithm=e":{}},"total_msg_size=any":{"algorithm=MPIR_Allgather_intra_ring":{}}"#,
        ] {
            assert!(text.contains(part), "{text}");
        }
        let long = rules(&[(Operation::Allgather, 4, vec![(0, 0), (1 << 29, 4)])]);
        assert!(choice_with(OWN, &long).is_err(), "an int has no room for it");
    }

    #[test]
    fn another_form_is_refused() {
        let one = rules(&[(Operation::Reduce, 4, vec![(0, 1)])]);
        let bcast = rules(&[(Operation::Bcast, 4, vec![(0, 1)])]);
        for (own, rules) in [
            (OWN, &one),
            ("", &bcast),
            ("}}{", &bcast),
            (r#"{"collective=bcast":"#, &bcast),
            (r#"{"collective=bcast":[]}"#, &bcast),
            (r#"{"collective=bcast":{"comm_type=inter":{}}}"#, &bcast),
            (r#"{"x":{"collective=bcast":{"comm_type=intra":{}}}}"#, &bcast),
        ] {
            let said = choice_with(own, rules).unwrap_err().to_string();
            assert!(said.contains("not of the form"), "{own}: {said}");
        }
    }

    #[test]
    fn own_choice_is_that_of_no_other_layer() {
        let other = r#"{"collective=bcast":{"algorithm=MPIDI_POSIX_mpi_bcast":{}}}"#;
        let library = [b"\x7fELF\0", other.as_bytes(), b"\0", OWN.as_bytes(), b"\0more"].concat();
        assert_eq!(own_choice(&library), Some(OWN));
        assert_eq!(own_choice(other.as_bytes()), None);
        assert_eq!(own_choice(OWN.as_bytes()), None, "it is cut off");
    }

    #[test]
    fn each_algorithm_has_a_number_that_a_file_may_name() {
        assert!(names().starts_with("bcast:binomial,nb,scatter"), "{}", names());
        for operation in OPERATIONS {
            let count = u32::try_from(algorithms(operation).len()).unwrap();
            assert!(are_known(operation, &vec![(0, 0), (1, count)]));
            assert!(!are_known(operation, &vec![(0, count + 1)]));
        }
    }
}
