#![doc = include_str!("../README.md")]

mod check;
mod dist;
mod docs;
mod measure;
mod run;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, tests and measurements of this repository"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Layers, forgotten files and tests, words, tasks and bounds
    Check,
    /// Licences, sources, banned crates and, where their database can be had, advisories
    Deny,
    /// Build what is released: an archive and a Debian package, in target/packages
    Dist {
        /// The cargo profile; any but `dist` is packaged as it is, neither stripped nor compressed
        #[arg(long, default_value = "dist")]
        profile: String,
    },
    /// Write the documents that are made from the sources
    Docs,
    /// Try every order in which threads can run, on what is built for it
    Loom,
    /// Install what the tests need and run them all
    Test {
        /// Handed to `cargo nextest run`, such as `-E 'test(push)'`
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// Measure a dist build over loopback, each figure beside its floor
    Bench {
        /// Handed to the benchmark, such as `--only events`
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// Take the pictures of pages that the documentation shows
    Screenshots,
    /// Run the long form of a test
    Campaign { name: measure::Campaign },
    /// Run the GRASP-01 cases against any server and print a table
    Conformance {
        /// The server, such as `https://grasp.example.com`
        #[arg(long)]
        url: String,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Check => check::run(),
        Command::Deny => test::deny(),
        Command::Dist { profile } => dist::build(&profile),
        Command::Docs => docs::write(),
        Command::Loom => test::loom(),
        Command::Test { rest } => test::run(&rest),
        Command::Bench { rest } => measure::bench(&rest),
        Command::Screenshots => measure::screenshots(),
        Command::Campaign { name } => measure::campaign(name),
        Command::Conformance { url } => measure::conformance(&url),
    };
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // The alternate form is the chain of causes in one line, without a backtrace.
    eprintln!("xtask: {error:#}");
    ExitCode::FAILURE
}
