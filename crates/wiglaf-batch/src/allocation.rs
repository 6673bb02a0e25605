//! What Slurm has given a job: nodes, and how many processes on each.

use wiglaf_base::HostList;
use wiglaf_base::error::{Error, Result};

/// The variable that says that this is a job of Slurm's.
pub(crate) const JOB_ID: &str = "SLURM_JOB_ID";
const NODE_LIST: &str = "SLURM_JOB_NODELIST";
const TASKS: &str = "SLURM_TASKS_PER_NODE";
/// More nodes than any cluster here has.
const NODES_MAX: usize = 4096;

/// The nodes of a job, and how many processes it has on each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Slurm's number of the job.
    pub job: String,
    /// Node and slots, in Slurm's order.
    pub slots: Vec<(String, usize)>,
}

impl Allocation {
    /// The one that this process is in, if it is in one.
    ///
    /// # Errors
    /// When its variables contradict each other.
    pub fn here() -> Result<Option<Self>> {
        Self::from_variables(&|name| std::env::var(name).ok())
    }

    /// The one that the variables from `get` describe, if they describe one.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let (Some(job), Some(list)) = (get(JOB_ID), get(NODE_LIST)) else { return Ok(None) };
        let nodes = HostList::parse(&list)?;
        let nodes = nodes.names();
        let tasks = match get(TASKS) {
            Some(text) => tasks_per_node(&text).ok_or_else(|| {
                Error::new(format!("{TASKS}={text} is nothing that Slurm writes; unset it"))
            })?,
            None => vec![1; nodes.len()],
        };
        if tasks.len() != nodes.len() {
            return Err(Error::new(format!(
                "{NODE_LIST}={list} has {} nodes, {TASKS} has {}; one of them was changed since the job \
                 started",
                nodes.len(),
                tasks.len()
            )));
        }
        let slots = nodes.iter().cloned().zip(tasks).collect();
        Ok(Some(Self { job, slots }))
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> HostList {
        self.slots.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// How many processes it has.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.slots.iter().map(|(_, slots)| slots).sum()
    }

    /// Which of its nodes a call takes, and how many ranks: all, unless it says otherwise. Nothing where
    /// the allocation is one of another cluster than that which has the nodes `all`.
    ///
    /// # Errors
    /// When the call wants nodes that the job does not have.
    pub fn take(&self, all: &HostList, wanted: Option<&HostList>) -> Result<Option<Self>> {
        let is_node = |name: &String| all.names().contains(name);
        let known = self.slots.iter().filter(|(name, _)| is_node(name)).count();
        if known == 0 {
            return Ok(None);
        }
        if let Some((name, _)) = self.slots.iter().find(|(name, _)| !is_node(name)) {
            return Err(Error::new(format!(
                "job {} of Slurm has the node {name}, which the cluster does not; it has {all}",
                self.job
            )));
        }
        let Some(wanted) = wanted else { return Ok(Some(self.clone())) };
        let own = self.nodes();
        if let Some(name) = wanted.names().iter().find(|name| !own.names().contains(name)) {
            return Err(Error::new(format!(
                "{name} is not one of job {}'s nodes, {own}; leave --nodes out, or ask Slurm for it: \
                 `salloc -w {name}`",
                self.job
            )));
        }
        let slots = self.slots.iter().filter(|(name, _)| wanted.names().contains(name));
        Ok(Some(Self { job: self.job.clone(), slots: slots.cloned().collect() }))
    }
}

/// Reads `2(x3),1`, which is how Slurm writes 2, 2, 2 and 1.
fn tasks_per_node(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let tasks: usize = tasks.parse().ok()?;
        if times > NODES_MAX || all.len() + times > NODES_MAX {
            return None;
        }
        all.extend(std::iter::repeat_n(tasks, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(list: &str, tasks: Option<&str>) -> Result<Option<Allocation>> {
        Allocation::from_variables(&|name| match name {
            JOB_ID => Some("7".to_owned()),
            NODE_LIST => Some(list.to_owned()),
            TASKS => tasks.map(str::to_owned),
            _ => None,
        })
    }

    fn hosts(text: &str) -> HostList {
        HostList::parse(text).unwrap()
    }

    #[test]
    fn slots_are_those_that_slurm_writes() {
        let slots = |list, tasks| {
            let slots = allocation(list, tasks).unwrap().unwrap().slots;
            slots
                .iter()
                .map(|(name, slots)| format!("{name}:{slots}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(slots("pc[1-4]", Some("2(x3),1")), "pc1:2 pc2:2 pc3:2 pc4:1");
        assert_eq!(slots("pc7", Some("8")), "pc7:8");
        assert_eq!(slots("a,b[1-2]", None), "a:1 b1:1 b2:1");
        assert_eq!(Allocation::from_variables(&|_| None).unwrap(), None);
    }

    #[test]
    fn variables_that_contradict_each_other_are_a_sentence() {
        for (tasks, part) in [
            ("2", "has 2 nodes, SLURM_TASKS_PER_NODE has 1"),
            ("2(x", "nothing that Slurm writes"),
            ("1(x99999999999)", "nothing that Slurm writes"),
            ("", "nothing that Slurm writes"),
        ] {
            let why = allocation("pc[1-2]", Some(tasks)).unwrap_err().to_string();
            assert!(why.contains(part), "{tasks}: {why}");
        }
    }

    #[test]
    fn job_takes_its_own_nodes_and_no_others() {
        let job = allocation("pc[1-2]", Some("2(x2)")).unwrap().unwrap();
        let all = hosts("pc[1-4]");
        assert_eq!(job.take(&all, None).unwrap().unwrap(), job);
        let one = job.take(&all, Some(&hosts("pc2"))).unwrap().unwrap();
        assert_eq!(one.slots, [("pc2".to_owned(), 2)]);
        let why = job.take(&all, Some(&hosts("pc[2-3]"))).unwrap_err().to_string();
        assert!(why.contains("pc3 is not one of job 7's nodes, pc[1-2]"), "{why}");
        assert_eq!(job.take(&hosts("node[1-2]"), None).unwrap(), None, "of another cluster");
        let why = job.take(&hosts("pc1"), None).unwrap_err().to_string();
        assert!(why.contains("has the node pc2, which the cluster does not"), "{why}");
    }
}
