#![doc = include_str!("../README.md")]

mod advertise;
mod backfill;
mod browse;
mod cluster;
mod cycle;
mod events;
mod fanout;
mod feed;
mod fixture;
mod http;
mod queries;
mod queue;
mod report;
mod service;
mod sync;
mod transfer;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
struct Options {
    /// The binary to measure.
    #[arg(long)]
    binary: PathBuf,
    /// Only groups whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Size of the generated repository in MiB.
    #[arg(long, default_value_t = 212)]
    repository_mib: u64,
    /// How many identifiers wait for data that is not looked for yet.
    #[arg(long, default_value_t = 10_000)]
    waiting: usize,
    /// Be the floor instead: answer 200 on this port and do nothing else.
    #[arg(long, hide = true)]
    serve_nothing: Option<u16>,
    /// How many versions the module feed has.
    #[arg(long, default_value_t = 10_000_000)]
    versions: usize,
    /// How many repositories the list has.
    #[arg(long, default_value_t = 10_000)]
    repositories: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut options = Options::parse();
    if let Some(port) = options.serve_nothing {
        return service::serve_nothing(port).await;
    }
    // Nodes run in directories of their own.
    options.binary = options.binary.canonicalize()?;
    let wanted = |name: &str| name.contains(&options.only);
    let mut table = report::Table::default();
    if wanted("events") {
        events::measure(&options.binary, &mut table).await?;
    }
    if wanted("queries") {
        queries::measure(&options.binary, &mut table).await?;
    }
    if wanted("fanout") {
        fanout::measure(&options.binary, &mut table).await?;
    }
    if wanted("service") {
        service::measure(&options.binary, &mut table).await?;
    }
    if wanted("advertise") {
        advertise::measure(&options.binary, &mut table).await?;
    }
    if wanted("cycle") {
        cycle::measure(&options.binary, &mut table).await?;
    }
    if wanted("transfer") {
        transfer::measure(&options.binary, options.repository_mib, &mut table).await?;
    }
    if wanted("sync") {
        sync::measure(&options.binary, &mut table).await?;
    }
    if wanted("due") {
        sync::waiting::all_due(&options.binary, &mut table).await?;
    }
    if wanted("waiting") {
        sync::waiting::none_due(&options.binary, options.waiting, &mut table).await?;
    }
    if wanted("queue") {
        queue::measure(&mut table).await?;
    }
    if wanted("feed") {
        feed::measure(&options.binary, options.versions, &mut table).await?;
    }
    if wanted("backfill") {
        backfill::measure(&mut table).await?;
    }
    if wanted("cluster") {
        cluster::measure(&options.binary, &mut table).await?;
    }
    if wanted("browse") {
        browse::measure(&options.binary, options.repositories, &mut table).await?;
    }
    table.print();
    Ok(())
}
