//! Adds hosts to a cluster file and removes them, and leaves all else in it as the user wrote it.

use std::net::Ipv4Addr;
use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, Table, Value, value};
use wiglaf_base::error::{Error, Result};
use wiglaf_base::hostlist::HostList;

/// What the file says of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewNode {
    pub(crate) name: String,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) host: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) wiglaf: Option<String>,
}

/// A cluster file that is being edited.
#[derive(Debug, Clone)]
pub(crate) struct File {
    document: DocumentMut,
}

impl File {
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let wrong = |error: toml_edit::TomlError| {
            Error::new(format!("{}: {}", path.display(), error.message().replace('\n', ", ")))
        };
        Ok(Self { document: text.parse().map_err(wrong)? })
    }

    pub(crate) fn text(&self) -> String {
        self.document.to_string()
    }

    /// Adds a host, or says the same of one that is there.
    pub(crate) fn add(&mut self, node: &NewNode) -> Result<()> {
        let mut names = self.names()?;
        if !names.contains(&node.name) {
            names.push(node.name.clone());
            self.set_names(&names);
        }
        self.set(&node.name, "address", node.address.map(|address| address.to_string()))?;
        self.set(&node.name, "host", node.host.clone())?;
        self.set(&node.name, "user", node.user.clone())?;
        self.set(&node.name, "wiglaf", node.wiglaf.clone())
    }

    /// Removes a host with what is said of it.
    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        let mut names = self.names()?;
        names.retain(|known| known != name);
        self.set_names(&names);
        for sections in ["node", "owner"] {
            let Some(table) = self.document.get_mut(sections).and_then(Item::as_table_like_mut)
            else {
                continue;
            };
            table.remove(name);
            if table.is_empty() {
                self.document.remove(sections);
            }
        }
        Ok(())
    }

    /// Sets a key of a host, or removes it.
    pub(crate) fn set(&mut self, name: &str, key: &str, to: Option<String>) -> Result<()> {
        let wrong = || Error::new(format!("[node.{name}] is no section; write it as one"));
        let is_there = self.document.get("node").is_some_and(|nodes| nodes.get(name).is_some());
        if to.is_none() && !is_there {
            return Ok(());
        }
        let implicit = || {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        };
        let nodes = self.document.entry("node").or_insert_with(implicit);
        let nodes = nodes.as_table_like_mut().ok_or_else(wrong)?;
        let node = nodes.entry(name).or_insert(Item::Table(Table::new()));
        let node = node.as_table_like_mut().ok_or_else(wrong)?;
        match to {
            Some(text) if node.get(key).and_then(Item::as_str) == Some(&text) => {}
            Some(text) => drop(node.insert(key, value(text))),
            None => drop(node.remove(key)),
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        let wrong = || Error::new("`nodes` is neither a host list nor a list of names");
        let nodes = self.document.get("nodes").and_then(Item::as_value).ok_or_else(wrong)?;
        match nodes {
            Value::String(text) => Ok(HostList::parse(text.value())?.names().to_vec()),
            Value::Array(list) => {
                list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            _ => Err(wrong()),
        }
    }

    /// Writes the names as they were written: as a host list, or one by one.
    fn set_names(&mut self, names: &[String]) {
        let Some(Item::Value(nodes)) = self.document.get_mut("nodes") else { return };
        if let Value::Array(list) = nodes {
            list.retain(|name| name.as_str().is_some_and(|name| names.iter().any(|n| n == name)));
            for name in names.iter().skip(list.len()) {
                list.push(name);
            }
            return;
        }
        let list: HostList = names.iter().cloned().collect();
        let decor = nodes.decor().clone();
        *nodes = match names.is_empty() {
            true => Value::Array(Array::new()),
            false => Value::from(list.to_string()),
        };
        *nodes.decor_mut() = decor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# My lab.\nnodes = \"pc[1-2]\"  # the fast ones\n\n[network]\ndata = \"192.168.77.0/24\"\n\n\
                        # the old one\n[node.pc2]\nslots = 1 # broken core\n";

    fn edited(text: &str, edit: impl FnOnce(&mut File) -> Result<()>) -> String {
        let mut file = File::parse(text, Path::new("f")).unwrap();
        edit(&mut file).unwrap();
        file.text()
    }

    fn pc3() -> NewNode {
        let address = Some(Ipv4Addr::new(192, 168, 77, 3));
        NewNode { name: "pc3".to_owned(), address, ..NewNode::default() }
    }

    #[test]
    fn comments_stay_and_the_list_grows() {
        let text = edited(FILE, |file| file.add(&pc3()));
        assert_eq!(
            text,
            FILE.replace("pc[1-2]", "pc[1-3]") + "\n[node.pc3]\naddress = \"192.168.77.3\"\n"
        );
        assert_eq!(edited(&text, |file| file.add(&pc3())), text, "once more");
        assert_eq!(edited(&text, |file| file.remove("pc3")).trim_end(), FILE.trim_end());
    }

    #[test]
    fn host_that_is_described_keeps_its_description() {
        let node = NewNode { name: "pc2".to_owned(), user: Some("bob".to_owned()), ..pc3() };
        let text = edited(FILE, |file| file.add(&node));
        assert!(
            text.contains("slots = 1 # broken core\naddress = \"192.168.77.3\"\nuser = \"bob\"\n"),
            "{text}"
        );
    }

    #[test]
    fn with_a_host_goes_its_owner() {
        let owners = "\n[owner.pc1]\nuser = \"ann\"\n\n[owner.pc2]\nuser = \"bob\"\n";
        let text = edited(&format!("{FILE}{owners}"), |file| file.remove("pc2"));
        assert!(text.contains("[owner.pc1]\nuser = \"ann\"\n") && !text.contains("pc2"), "{text}");
        assert!(!edited(&text, |file| file.remove("pc1")).contains("owner"));
    }

    #[test]
    fn names_of_any_form_are_written_back_as_they_were() {
        let list = "nodes = [\"b.lab\", \"a\"] # two\n[network]\ndata = \"10.0.0.0/8\"\n";
        let text = edited(list, |file| file.add(&NewNode { name: "c.lab".to_owned(), ..pc3() }));
        assert!(text.starts_with("nodes = [\"b.lab\", \"a\", \"c.lab\"] # two\n"), "{text}");
        assert!(text.contains("[node.\"c.lab\"]"), "{text}");
        let text = edited(list, |file| file.remove("b.lab"));
        assert!(text.contains("\"a\"] # two\n") && !text.contains("b.lab"), "{text}");
    }

    #[test]
    fn what_is_no_cluster_file_is_a_sentence() {
        assert!(File::parse("nodes = ", Path::new("f")).is_err());
        let mut file = File::parse("nodes = 4", Path::new("f")).unwrap();
        assert!(file.add(&pc3()).is_err());
        let mut file = File::parse("nodes = \"a\"\nnode = 3", Path::new("f")).unwrap();
        assert!(file.add(&pc3()).is_err());
    }
}
