//! Records of running nodes: how a command finds the node of its machine without being told.
//!
//! A node writes one file while it runs, into the runtime directory of its unit or of its user (where there
//! is none, into the user's state directory), and one into its data directory. A command that was told neither
//! an address nor a data directory, and does not stand beside one, reads the former; one that knows the data
//! directory, the latter.
//!
//! A killed node leaves its records, and the kernel gives its process id to others, soon after a reboot: a
//! record counts while the process of that id is the one that was started when the record says.

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
    pid: u32,
    /// When the process was started, as [`started`] says it; empty where that cannot be told, and in
    /// records of nodes from before it was noted.
    #[serde(default)]
    started: String,
    /// Where it answers on its machine, base path included.
    pub(crate) url: String,
    pub(crate) data_dir: PathBuf,
}

impl RunningNode {
    /// The node that is this process.
    pub(crate) fn this(url: String, data_dir: &Path) -> io::Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            pid,
            started: started(pid).unwrap_or_default(),
            url,
            data_dir: std::path::absolute(data_dir)?,
        })
    }

    fn is_alive(&self) -> bool {
        if self.started.is_empty() {
            return Path::new("/proc").join(self.pid.to_string()).exists();
        }
        started(self.pid).is_some_and(|started| started == self.started)
    }
}

/// When a process was started: the boot, and the clock ticks since then. None if no such process runs.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks = start_ticks(&stat)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{} {ticks}", boot.trim()))
}

/// Reads `starttime` of `/proc/<pid>/stat`; none of a process that has ended and waits for its parent.
fn start_ticks(stat: &str) -> Option<&str> {
    // The name of the program may have spaces and parentheses of its own.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // The state is the third field, `starttime` the 22nd.
    fields.nth(18)
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
        let directory = unit.or_else(|| of_user(env).into_iter().next());
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
    node.is_alive().then_some(node)
}

/// Places of a user, the one that is written to first. Who has no session (`su`, a container) has no
/// runtime directory; what programs keep for a user is theirs alone as well.
fn of_user(env: &dyn Environment) -> Vec<PathBuf> {
    let state = env.variable("XDG_STATE_HOME");
    let home = || Some(format!("{}/.local/state", env.variable("HOME")?));
    let places = [env.variable("XDG_RUNTIME_DIR"), state.or_else(home)];
    let places = places.into_iter().flatten();
    places.map(|it| Path::new(&it).join("gripfast")).collect()
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
    nodes.filter(RunningNode::is_alive).collect()
}

fn read(path: &Path) -> io::Result<RunningNode> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fake;

    fn node(data_dir: &Path) -> RunningNode {
        RunningNode::this("http://127.0.0.1:7334".to_owned(), data_dir).unwrap()
    }

    #[test]
    fn a_node_is_found_while_it_runs_and_not_after() {
        let dir = tempfile::tempdir().unwrap();
        let env = Fake::default().env("XDG_RUNTIME_DIR", dir.path().to_str().unwrap());
        let ours = node(&dir.path().join("data"));
        let record = Record::write(&ours, &env);
        assert!(nodes(&env).contains(&ours));
        assert_eq!(of(&ours.data_dir), Some(ours.clone()));
        drop(record);
        assert!(!nodes(&env).contains(&ours));
        assert_eq!(of(&ours.data_dir), None);
    }

    #[test]
    fn a_node_of_a_user_without_a_session_is_found_too() {
        let dir = tempfile::tempdir().unwrap();
        let home = || Fake::default().env("HOME", dir.path().to_str().unwrap());
        let ours = node(&dir.path().join("data"));
        let _record = Record::write(&ours, &home());
        assert!(nodes(&home()).contains(&ours));
        let session = home().env("XDG_RUNTIME_DIR", "/run/user/4711");
        assert!(nodes(&session).contains(&ours), "both places are looked at");
    }

    #[test]
    fn the_record_of_a_process_that_is_gone_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join("gripfast");
        // Beyond the highest process id of Linux.
        let gone = RunningNode {
            pid: 1 << 22,
            ..node(dir.path())
        };
        fs::create_dir(&unit).unwrap();
        fs::write(unit.join("1.json"), serde_json::to_string(&gone).unwrap()).unwrap();
        fs::write(unit.join("2.json"), "{").unwrap();
        let env = Fake::default().env("XDG_RUNTIME_DIR", dir.path().to_str().unwrap());
        assert!(!nodes(&env).contains(&gone));
    }

    #[test]
    fn another_process_with_the_id_of_a_killed_node_is_not_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let env = Fake::default().env("XDG_RUNTIME_DIR", dir.path().to_str().unwrap());
        let ours = node(&dir.path().join("data"));
        let (boot, ticks) = ours.started.split_once(' ').unwrap();
        let later = format!("{boot} {}", ticks.parse::<u64>().unwrap() + 1);
        let after_a_reboot = format!("00000000-0000-0000-0000-000000000000 {ticks}");
        for started in [later, after_a_reboot] {
            let other = RunningNode {
                started,
                ..ours.clone()
            };
            let _record = Record::write(&other, &env);
            assert_eq!(of(&other.data_dir), None, "{other:?}");
            assert!(!nodes(&env).contains(&other), "{other:?}");
        }
        // One that does not say when it was started counts while there is such a process.
        let older = RunningNode {
            started: String::new(),
            ..ours
        };
        let _record = Record::write(&older, &env);
        assert_eq!(of(&older.data_dir), Some(older));
    }

    #[test]
    fn the_start_of_a_process_is_read_whatever_its_program_is_called() {
        let stat = |name: &str, state: &str| {
            let between: Vec<_> = (4..22).map(|n| n.to_string()).collect();
            format!("7 ({name}) {state} {} 4711 23 24\n", between.join(" "))
        };
        for name in ["gripfast", "a b", "a) S 1 (b"] {
            assert_eq!(start_ticks(&stat(name, "S")), Some("4711"), "{name}");
        }
        assert_eq!(start_ticks(&stat("gripfast", "Z")), None, "it has ended");
        assert_eq!(start_ticks("7 (gripfast"), None);
    }
}
