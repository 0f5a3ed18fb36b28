//! `gripfast man`: manual pages made from the command line.

use std::{fs, io::Write as _, path::Path};

use anyhow::Context as _;
use clap_mangen::Man;

use crate::cli;

/// Prints the page of the program, or writes the pages of all commands.
pub(crate) fn run(directory: Option<&Path>) -> anyhow::Result<()> {
    // Its own text: the page has the commands and options as sections anyway.
    let command = cli::command();
    let Some(directory) = directory else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        return Ok(std::io::stdout().write_all(&page)?);
    };
    let failed = || format!("cannot write manual pages into {}", directory.display());
    fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(command, directory).with_context(failed)
}
