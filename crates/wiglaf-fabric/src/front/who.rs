//! Whose a query is: ours, or the system's libfabric's.

use std::ffi::{CStr, OsString};

use crate::info::NAME;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Wiglaf,
    System,
}

/// What the environment says about providers.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// `FI_PROVIDER`: the only ones, or with `^` before them all but these.
    pub(super) providers: Option<OsString>,
    /// Whether `FI_HOOK` puts something between application and provider.
    pub(super) hooked: bool,
}

impl Environment {
    pub(super) fn read() -> Self {
        let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self { providers: value("FI_PROVIDER"), hooked: value("FI_HOOK").is_some() }
    }

    /// Who answers `fi_getinfo` to whom asks for the provider `asked`. Who names none means Wiglaf:
    /// this library stands where it does for that.
    pub(super) fn who(&self, asked: Option<&CStr>) -> Who {
        let ours = match (&self.providers, asked) {
            // What hints name besides is refused as the system's would.
            (Some(names), _) => is_ours(names.as_encoded_bytes()),
            (None, Some(name)) => is_ours(name.to_bytes()),
            (None, None) => true,
        };
        if ours && !self.hooked { Who::Wiglaf } else { Who::System }
    }

    /// Who opens a fabric of the provider `name`.
    pub(super) fn opens(&self, name: &CStr) -> Who {
        if is_ours(name.to_bytes()) && !self.hooked { Who::Wiglaf } else { Who::System }
    }
}

fn is_ours(name: &[u8]) -> bool {
    name.trim_ascii().eq_ignore_ascii_case(NAME.to_bytes())
}
