//! What fuzzers call of this crate's private parsers.

use crate::layout;

/// A snapshot: as it is, and once more with a checksum that fits.
pub fn snapshot(bytes: &[u8]) {
    let _ = layout::parse(0, bytes);
    let mut checked = bytes.to_vec();
    layout::check(&mut checked);
    if let Some(snapshot) = layout::parse(0, &checked) {
        let shown = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        assert!(shown(&snapshot.identity.program) && shown(&snapshot.identity.links));
        assert!(snapshot.counters.iter().all(|(name, _)| shown(name)));
    }
}
