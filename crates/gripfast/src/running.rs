//! Records of running nodes: how a command finds the node of its machine without being told.
//!
//! A node writes one file while it runs, into the runtime directory of its unit or of its user, and one
//! into its data directory. A command that was told neither an address nor a data directory, and does not
//! stand beside one, reads the former; one that knows the data directory, the latter.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::config::Environment;

/// The directory that systemd makes for the unit.
const OF_UNIT: &str = "/run/gripfast";
/// The record in a data directory.
pub(crate) const FILE: &str = "running.json";
/// More files than these are not looked at.
const MAX_RECORDS: usize = 100;

/// A node, as its record says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct RunningNode {
    pub(crate) pid: u32,
    /// Where it answers on its machine, base path included.
    pub(crate) url: String,
    pub(crate) data_dir: PathBuf,
}

/// The records of a node on disk; removed when dropped.
#[derive(Debug)]
pub(crate) struct Record {
    paths: Vec<PathBuf>,
}

impl Record {
    /// Writes the records. Where there is no place for one commands have to be told: no reason to stop.
    pub(crate) fn write(node: &RunningNode, env: &dyn Environment) -> Self {
        let unit = env.variable("RUNTIME_DIRECTORY").map(PathBuf::from);
        let directory = unit.or_else(|| of_user(env));
        let of_machine = directory.map(|dir| dir.join(format!("{}.json", node.pid)));
        let paths = of_machine.into_iter().chain([node.data_dir.join(FILE)]);
        let written = |path: &PathBuf| match write(path, node) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "failed to note where this node runs");
                false
            }
        };
        Self {
            paths: paths.filter(written).collect(),
        }
    }
}

fn write(path: &Path, node: &RunningNode) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension("new");
    fs::write(&beside, serde_json::to_string(node)? + "\n")?;
    fs::rename(beside, path)
}

impl Drop for Record {
    fn drop(&mut self) {
        for path in &self.paths {
            // One that stays is of a process that is gone, and not believed.
            let _ = fs::remove_file(path);
        }
    }
}

/// The node that uses a data directory, if one runs.
pub(crate) fn of(data_dir: &Path) -> Option<RunningNode> {
    let node = read(&data_dir.join(FILE)).ok()?;
    is_alive(node.pid).then_some(node)
}

fn of_user(env: &dyn Environment) -> Option<PathBuf> {
    let directory = env.variable("XDG_RUNTIME_DIR")?;
    Some(Path::new(&directory).join("gripfast"))
}

/// The nodes that run on this machine, as far as their records can be read.
pub(crate) fn nodes(env: &dyn Environment) -> Vec<RunningNode> {
    let directories = of_user(env).into_iter().chain([PathBuf::from(OF_UNIT)]);
    let mut nodes: Vec<_> = directories
        .flat_map(|directory| nodes_in(&directory))
        .collect();
    nodes.dedup();
    nodes
}

fn nodes_in(directory: &Path) -> Vec<RunningNode> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let records = entries.map(|entry| entry.path());
    let records = records.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    let nodes = records
        .take(MAX_RECORDS)
        .filter_map(|path| read(&path).ok());
    nodes.filter(|node| is_alive(node.pid)).collect()
}

fn read(path: &Path) -> io::Result<RunningNode> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fake;

    fn node(pid: u32) -> RunningNode {
        RunningNode {
            pid,
            url: "http://127.0.0.1:7334".to_owned(),
            data_dir: "/var/lib/gripfast".into(),
        }
    }

    #[test]
    fn a_node_is_found_while_it_runs_and_not_after() {
        let dir = tempfile::tempdir().unwrap();
        let env = Fake::default().env("XDG_RUNTIME_DIR", dir.path().to_str().unwrap());
        let mut ours = node(std::process::id());
        ours.data_dir = dir.path().join("data");
        let record = Record::write(&ours, &env);
        assert!(nodes(&env).contains(&ours));
        assert_eq!(of(&ours.data_dir), Some(ours.clone()));
        drop(record);
        assert!(!nodes(&env).contains(&ours));
        assert_eq!(of(&ours.data_dir), None);
    }

    #[test]
    fn the_record_of_a_process_that_is_gone_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join("gripfast");
        // Beyond the highest process id of Linux.
        let gone = node(1 << 22);
        fs::create_dir(&unit).unwrap();
        fs::write(unit.join("1.json"), serde_json::to_string(&gone).unwrap()).unwrap();
        fs::write(unit.join("2.json"), "{").unwrap();
        let env = Fake::default().env("XDG_RUNTIME_DIR", dir.path().to_str().unwrap());
        assert!(!nodes(&env).contains(&gone));
    }
}
