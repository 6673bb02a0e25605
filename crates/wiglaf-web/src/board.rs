//! What is shown now, between those who gather it and those who look; gathering stops while nobody looks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::View;

/// So long after the last request somebody is taken to look.
const WATCHED: Duration = Duration::from_secs(60);

/// The page's data.
#[derive(Debug)]
pub struct Board {
    inner: Mutex<Inner>,
    looked: Condvar,
}

#[derive(Debug)]
struct Inner {
    view: Arc<View>,
    looked_at: Instant,
}

impl Board {
    /// With this on it.
    #[must_use]
    pub fn new(view: View) -> Self {
        let inner = Inner { view: Arc::new(view), looked_at: Instant::now() };
        Self { inner: Mutex::new(inner), looked: Condvar::new() }
    }

    /// Changes what is shown.
    pub fn change(&self, how: impl FnOnce(&mut View)) {
        let mut inner = self.lock();
        how(Arc::make_mut(&mut inner.view));
    }

    /// What is shown. Who asks looks.
    #[must_use]
    pub fn look(&self) -> Arc<View> {
        let mut inner = self.lock();
        inner.looked_at = Instant::now();
        self.looked.notify_all();
        inner.view.clone()
    }

    /// Returns when somebody looks, at once where somebody did a moment ago.
    pub fn wait_until_watched(&self) {
        let inner = self.lock();
        let is_idle = |inner: &mut Inner| inner.looked_at.elapsed() > WATCHED;
        drop(self.looked.wait_while(inner, is_idle).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
