//! The admin token: a file made by the node and read by the commands of its operator.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::private_file;

/// Its name in the data directory.
const NAME: &str = "admin.token";

pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Takes the token of the last run, or makes one where there is none that only we could read.
pub(crate) fn make(data_dir: &Path) -> io::Result<String> {
    private_file::take(&path(data_dir))
}

/// Reads the token of a node that runs, or ran, with this directory.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    private_file::read(path)
}
