//! Who belongs to a job, as the launcher tells it.

use std::net::SocketAddrV4;

use wiglaf_endpoint::Epoch;

use crate::Error;

/// One process of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Where its endpoint is.
    pub at: SocketAddrV4,
    /// Its incarnation; unknown is allowed.
    pub epoch: Epoch,
}

/// A job as one of its processes sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// This process's rank.
    pub rank: usize,
    /// All processes, by rank.
    pub members: Vec<Member>,
}

impl Job {
    /// Reads `WIGLAF_RANK` and `WIGLAF_PEERS`: `IP:PORT:EPOCH` for each rank,
    /// separated by commas, the epoch in hexadecimal.
    ///
    /// # Errors
    /// [`Error::Environment`].
    pub fn from_env() -> Result<Self, Error> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| Error::Environment(format!("{name} is not set")))
        };
        Self::parse(&variable("WIGLAF_RANK")?, &variable("WIGLAF_PEERS")?)
    }

    fn parse(rank: &str, peers: &str) -> Result<Self, Error> {
        let members: Result<Vec<Member>, Error> = peers.split(',').map(member).collect();
        let members = members?;
        match rank.parse() {
            Ok(rank) if rank < members.len() => Ok(Self { rank, members }),
            _ => Err(Error::Environment(format!(
                "WIGLAF_RANK is {rank:?}, and WIGLAF_PEERS names {} ranks",
                members.len()
            ))),
        }
    }
}

fn member(text: &str) -> Result<Member, Error> {
    let parsed = text.rsplit_once(':').and_then(|(at, epoch)| {
        Some(Member { at: at.parse().ok()?, epoch: Epoch(u64::from_str_radix(epoch, 16).ok()?) })
    });
    parsed.ok_or_else(|| {
        Error::Environment(format!("WIGLAF_PEERS has {text:?} where IP:PORT:EPOCH belongs"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_launcher_writes() {
        let job = Job::parse("1", "10.0.0.1:7701:ff,10.0.0.2:7702:0").unwrap();
        assert_eq!((job.rank, job.members.len()), (1, 2));
        assert_eq!(job.members[0].epoch, Epoch(255));
        assert_eq!(job.members[1].at.port(), 7702);
    }

    #[test]
    fn names_what_is_wrong() {
        for (rank, peers) in [("2", "10.0.0.1:1:1"), ("0", ""), ("x", "10.0.0.1:1:1"), ("0", "a:b")]
        {
            let why = Job::parse(rank, peers).unwrap_err().to_string();
            assert!(why.contains("WIGLAF_"), "{why}");
        }
    }
}
