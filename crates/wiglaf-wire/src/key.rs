//! The secret of a job.

/// 128 secret bits that all ranks of a job share.
///
/// The proof in each header is SipHash-2-4 (Aumasson and Bernstein, 2012)
/// under this key. The all-zero key proves nothing but integrity; it is what
/// endpoints use that nobody gave a secret.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct JobKey(pub [u8; 16]);

impl JobKey {
    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let value = u128::from_str_radix(text, 16).ok()?;
        Some(Self(value.to_be_bytes()))
    }

    /// Writes 32 hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for JobKey {
    /// Never prints the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_comes_back() {
        let key = JobKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(JobKey::from_hex(&key.to_hex()), Some(key));
        assert_eq!(JobKey::from_hex("+1234567890123456789012345678901"), None);
        assert_eq!(JobKey::from_hex("12"), None);
        assert_eq!(format!("{key:?}"), "JobKey(..)");
    }
}
