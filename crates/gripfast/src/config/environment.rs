//! The environment and the files that the configuration reads.

use std::{io, path::Path};

/// All that the configuration may look at.
pub(crate) trait Environment {
    /// Every variable.
    fn variables(&self) -> Vec<(String, String)>;
    /// The text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// The variable of this name, unless it is empty.
    fn variable(&self, name: &str) -> Option<String> {
        let mut all = self.variables().into_iter();
        let found = all.find(|(other, value)| other == name && !value.is_empty());
        found.map(|(_, value)| value)
    }
}

/// The environment of this process and the file system.
#[derive(Debug)]
pub(crate) struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variables(&self) -> Vec<(String, String)> {
        // A value that is no text is kept readable, so that the check of its option can name it.
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        all.collect()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }
}
