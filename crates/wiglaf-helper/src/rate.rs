//! How often something may happen.

use std::collections::HashMap;
use std::time::Instant;

/// Users remembered; beyond it those with nothing owed are forgotten.
const USERS_MAX: usize = 4096;
/// How much of a minute's allowance may be used at once.
const BURST_SECONDS: f64 = 20.0;

/// Allowances by user, each refilled with time.
#[derive(Debug, Default)]
pub(crate) struct Allowances {
    left: HashMap<u32, (f64, Instant)>,
}

impl Allowances {
    /// Whether `uid` may do it once more now.
    pub(crate) fn take(&mut self, uid: u32, per_minute: u32, now: Instant) -> bool {
        let per_second = f64::from(per_minute) / 60.0;
        let full = (per_second * BURST_SECONDS).max(1.0);
        if self.left.len() >= USERS_MAX && !self.left.contains_key(&uid) {
            self.left.retain(|_, (left, at)| {
                *left + now.duration_since(*at).as_secs_f64() * per_second < full
            });
            if self.left.len() >= USERS_MAX {
                return false;
            }
        }
        let (left, at) = self.left.entry(uid).or_insert((full, now));
        *left = (*left + now.duration_since(*at).as_secs_f64() * per_second).min(full);
        *at = now;
        let may = *left >= 1.0;
        if may {
            *left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_user_has_an_allowance_that_comes_back() {
        let (mut rate, now) = (Allowances::default(), Instant::now());
        let taken =
            |rate: &mut Allowances, uid, now| (0..1000).filter(|_| rate.take(uid, 60, now)).count();
        assert_eq!(taken(&mut rate, 1, now), 20);
        assert_eq!(taken(&mut rate, 2, now), 20);
        assert_eq!(taken(&mut rate, 1, now + Duration::from_millis(3100)), 3);
        assert_eq!(taken(&mut rate, 1, now + Duration::from_secs(1000)), 20);
    }

    /// What may come at once comes on top.
    #[test]
    fn nobody_gets_more_than_that_and_a_third_in_a_minute() {
        let (mut rate, now) = (Allowances::default(), Instant::now());
        let minute = (0..600).map(|tenth| now + Duration::from_millis(100 * tenth));
        let taken: usize =
            minute.map(|at| (0..100).filter(|_| rate.take(1, 120, at)).count()).sum();
        assert!((120..=160).contains(&taken), "{taken}");
    }

    #[test]
    fn memory_is_bounded_whoever_comes() {
        let (mut rate, now) = (Allowances::default(), Instant::now());
        for uid in 0..USERS_MAX as u32 * 2 {
            rate.take(uid, 60, now);
        }
        assert_eq!(rate.left.len(), USERS_MAX);
        assert!(rate.take(u32::MAX, 60, now + Duration::from_secs(60)));
    }
}
