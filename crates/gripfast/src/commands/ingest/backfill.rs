//! Old events from files, written into the database that the node uses, whether it runs or not.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use grip_db::Db;
use grip_ingest::backfill::{Backfill, FileDone, FileProgress};
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use serde_json::json;

use super::render;
use crate::{
    cli::NodeRequest,
    commands::progress::Progress,
    config::{self, DatabasePlace, ProcessEnvironment, Settings},
    node::database,
};

/// Reads the files one after the other, each from where it was left.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn run(request: &NodeRequest, files: &[PathBuf]) -> anyhow::Result<()> {
    let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
    let db = open(&settings).await?;
    let group = TaskGroup::new("backfill");
    let live_for = grip_ingest::Options::default().live_for;
    let backfill = Backfill::new(db.clone(), Queue::new(db.clone()), live_for, group);
    let mut failed = 0;
    for file in files {
        let mut progress = Progress::bytes(render::file_name(file), 0);
        let reading = backfill.file(file, |read: &FileProgress| {
            progress.set(read.bytes, read.total_bytes);
            progress.note(|| format!("{} new pushes", read.accepted.new));
        });
        let read = reading.await;
        progress.finish();
        match read {
            Ok(done) => print(file, &done, request.json),
            Err(error) => {
                failed += 1;
                anstream::eprintln!("gripfast: {:#}", anyhow::Error::new(error));
            }
        }
    }
    db.close().await;
    match failed {
        0 => Ok(()),
        1 => bail!("1 of {} files was not read to its end", files.len()),
        n => bail!("{n} of {} files were not read to their end", files.len()),
    }
}

async fn open(settings: &Settings) -> anyhow::Result<Db> {
    match &settings.database() {
        DatabasePlace::File(path) if path.exists() => {
            let opened = Db::open(path).await;
            opened.with_context(|| format!("cannot open {}", path.display()))
        }
        DatabasePlace::File(path) => bail!(
            "there is no database at {}: name the data directory of the node with --data-dir",
            path.display()
        ),
        DatabasePlace::Server(url) => database::connect_beside(url, "backfill").await,
    }
}

fn print(file: &Path, done: &FileDone, json: bool) {
    if json {
        let mut line = json!(done);
        line["file"] = json!(file.to_string_lossy());
        anstream::println!("{line}");
    } else {
        anstream::print!("{}", render::file(file, done));
    }
}
