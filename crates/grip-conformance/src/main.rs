//! `grip-conformance --url http://127.0.0.1:7334`: the suite as a table, against any server.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use grip_conformance::Target;

#[derive(Parser)]
#[command(
    about = "Runs the cases of GRASP-01, 02, 03, 05 and 06 against a server and prints a table"
)]
struct Options {
    /// The server, such as `https://grasp.example.com`
    #[arg(long)]
    url: String,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok()
        .context("a TLS provider is installed once")?;
    let target = Target::new(&options.url, reqwest::Client::new())?;
    let all_met = grip_conformance::run_and_print(&target).await;
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
