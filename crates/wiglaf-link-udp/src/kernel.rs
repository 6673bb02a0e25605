//! Which kernel it is, for what it does not say otherwise: that it cannot.

/// Whether the kernel's release is this one or a later one.
#[must_use]
pub fn kernel_is_from(min: (u32, u32)) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_str().unwrap_or_default();
    version(release).is_some_and(|version| version >= min)
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_apart_by_number() {
        assert_eq!(version("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(version("6.5-rc1"), Some((6, 5)));
        assert!(version("5.15.0-91-generic") < Some((6, 5)));
        assert_eq!(version("unknown"), None);
        assert!(kernel_is_from((2, 6)) && !kernel_is_from((1000, 0)));
    }
}
