//! `gripfast completions SHELL`.

use clap_complete::Shell;

/// Prints the completion script.
pub(crate) fn run(shell: Shell) -> anyhow::Result<()> {
    clap_complete::generate(
        shell,
        &mut crate::cli::command(),
        "gripfast",
        &mut std::io::stdout(),
    );
    Ok(())
}
