//! The seam to environment and files.

use std::{io, path::Path};

/// All that the configuration may look at.
pub(crate) trait Surroundings {
    /// Every variable of the environment.
    fn variables(&self) -> Vec<(String, String)>;
    /// The text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
}

/// The real environment and file system.
#[derive(Debug)]
pub(crate) struct Process;

impl Surroundings for Process {
    fn variables(&self) -> Vec<(String, String)> {
        // A value that is no text is kept readable, so that the check of its option can name it.
        std::env::vars_os()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }
}
