//! Checks and tests of this repository: `cargo xtask <command>`.

mod check;
mod docs;
mod run;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks and tests of this repository")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Layers, generated documents, forgotten tests, words that do not belong
    Check,
    /// Write the documents that are made from the table of options
    Docs,
    /// Install what the tests need and run them all
    Test {
        /// Handed to `cargo nextest run`, such as `-E 'test(push)'`
        #[arg(last = true)]
        rest: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Check => check::run(),
        Command::Docs => docs::write(),
        Command::Test { rest } => test::run(&rest),
    };
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // The alternate form is the chain of causes in one line, without a backtrace.
    eprintln!("xtask: {error:#}");
    ExitCode::FAILURE
}
