//! Work that is done for several things at once, such as the hosts of a cluster.

use std::thread;

use crate::error::{Error, Result};

/// Does `work` for each of `items` in a thread of its own. The answers are in the items' order; a panic is an error.
pub fn each<I, T>(items: I, work: impl Fn(I::Item) -> Result<T> + Sync) -> Vec<Result<T>>
where
    I: IntoIterator<Item: Send>,
    T: Send,
{
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        let panicked = || Err(Error::new("a thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_order_and_a_panic_is_an_error() {
        let answers = each([1, 2, 3], |number| match number {
            2 => panic!("on purpose"),
            3 => Err(Error::new("three")),
            one => Ok(10 * one),
        });
        let said: Vec<_> =
            answers.iter().map(|one| one.as_ref().map_err(ToString::to_string)).collect();
        assert_eq!(said, [Ok(&10), Err("a thread panicked".to_owned()), Err("three".to_owned())]);
    }
}
