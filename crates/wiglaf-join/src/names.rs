//! The hosts that a user names: `pc[2-4]`, `ann@pc5`, `192.168.77.6`.

use wiglaf_base::error::{Error, Result};
use wiglaf_base::hostlist::HostList;

/// A host as ssh knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) host: String,
    pub(crate) user: Option<String>,
}

/// The hosts of several lists, each once.
pub(crate) fn parse(lists: &[String]) -> Result<Vec<Named>> {
    let mut all: Vec<Named> = Vec::new();
    for list in lists {
        let (user, hosts) = match list.split_once('@') {
            Some((user, hosts)) => (Some(user.to_owned()), hosts),
            None => (None, &list[..]),
        };
        if let Some(user) = &user {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
            if user.is_empty() || user.starts_with('-') || !user.bytes().all(plain) {
                return Err(Error::new(format!("`{user}` is no user; write user@host")));
            }
        }
        for host in HostList::parse(hosts)?.names() {
            if host.starts_with(['-', '.']) {
                return Err(Error::new(format!(
                    "`{host}` is no host; write its name as ssh knows it"
                )));
            }
            let named = Named { host: host.clone(), user: user.clone() };
            if !all.iter().any(|known| known.host == named.host) {
                all.push(named);
            }
        }
    }
    match all.is_empty() {
        true => Err(Error::new("no host is named; write for example `wiglaf join pc2 pc3`")),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_with_their_users() {
        let all =
            parse(&["pc[2-3]".to_owned(), "ann@pc5,pc6".to_owned(), "pc2".to_owned()]).unwrap();
        let all: Vec<_> = all.iter().map(|n| (n.host.as_str(), n.user.as_deref())).collect();
        assert_eq!(all, [("pc2", None), ("pc3", None), ("pc5", Some("ann")), ("pc6", Some("ann"))]);
    }

    #[test]
    fn what_ssh_would_take_for_an_option_is_refused() {
        for text in ["-oProxyCommand=x", "-v", "-x@pc1", "a b@pc1", "@pc1", "pc1@", "a@b@c"] {
            assert!(parse(&[text.to_owned()]).is_err(), "{text}");
        }
        assert!(parse(&[]).is_err());
    }
}
