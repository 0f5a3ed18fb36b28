//! Exit codes and error messages of the program.

use std::process::ExitCode;

use grip_types::ErrorChain;

use crate::config::ConfigError;

/// The exit code of a wrong command line or configuration (`EX_USAGE` of sysexits).
pub(crate) const USAGE: u8 = 64;

/// Prints one sentence and chooses the exit code.
pub(crate) fn report(error: anyhow::Error) -> ExitCode {
    if let Some(ConfigError(mistakes)) = error.downcast_ref::<ConfigError>() {
        for mistake in mistakes {
            anstream::eprintln!("gripfast: {mistake}");
        }
        return ExitCode::from(USAGE);
    }
    anstream::eprintln!("gripfast: {}", sentence(&error));
    ExitCode::FAILURE
}

/// The error and its causes in one line.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    ErrorChain(error.as_ref()).to_string()
}
