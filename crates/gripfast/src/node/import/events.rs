//! Events of ngit-grasp: from its store, from a file with one a line, and those that waited.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use grip_nostr::{Event, first_value, kinds};
use grip_store::nostr_lmdb::{self, Found};
use serde_json::{Value, json};

use super::{Directories, Report, check_stopped};

/// Longest file of waiting events that is read.
const MAX_WAITING_BYTES: u64 = 1 << 30;

/// Where events are read from.
pub(super) struct Source {
    place: Place,
    /// What waited for git data when it was stopped.
    waiting: PathBuf,
}

enum Place {
    /// Its store, and below it that of the deletion requests it does not serve.
    Stores(Vec<PathBuf>),
    Lines(PathBuf),
}

impl Source {
    pub(super) fn open(from: &Directories) -> anyhow::Result<Self> {
        let relay = &from.relay;
        let place = if relay.is_file() {
            Place::Lines(relay.clone())
        } else if nostr_lmdb::is_store(relay) {
            let stores = [relay.join("tombstones"), relay.clone()];
            let stores: Vec<_> = stores
                .into_iter()
                .filter(|it| nostr_lmdb::is_store(it))
                .collect();
            for store in &stores {
                check_stopped(store)?;
            }
            Place::Stores(stores)
        } else {
            bail!(
                "{} is neither a store of ngit-grasp (data.mdb) nor a file with an event a line",
                relay.display()
            );
        };
        let waiting = from.git.join("purgatory-state.json");
        Ok(Self { place, waiting })
    }

    /// Every event once, and how many could not be read.
    pub(super) fn read(&self) -> anyhow::Result<(Vec<Event>, u64)> {
        let (mut events, mut unreadable) = (Vec::new(), 0);
        match &self.place {
            Place::Stores(stores) => {
                for store in stores {
                    let mut each = |found| match found {
                        Found::Event(event) => events.push(*event),
                        Found::Unreadable => unreadable += 1,
                    };
                    nostr_lmdb::read(store, &mut each)
                        .with_context(|| format!("cannot read {}", store.display()))?;
                }
            }
            Place::Lines(file) => read_lines(file, &mut events, &mut unreadable)?,
        }
        read_waiting(&self.waiting, &mut events)?;
        events.sort_by_key(|event| event.id);
        events.dedup_by_key(|event| event.id);
        Ok((events, unreadable))
    }
}

fn read_lines(file: &Path, events: &mut Vec<Event>, unreadable: &mut u64) -> anyhow::Result<()> {
    let shown = file.display();
    let opened = fs::File::open(file).with_context(|| format!("cannot read {shown}"))?;
    for line in BufReader::new(opened).lines() {
        let line = line.with_context(|| format!("cannot read {shown}"))?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(event) => events.push(event),
            Err(_) => *unreadable += 1,
        }
    }
    Ok(())
}

/// Reads what waited (L-8). Its deadlines begin again here: the data is looked for once more.
fn read_waiting(file: &Path, events: &mut Vec<Event>) -> anyhow::Result<()> {
    let shown = file.display();
    let length = match fs::metadata(file) {
        Ok(data) => data.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    if length > MAX_WAITING_BYTES {
        bail!("{shown} is too long");
    }
    let text = fs::read(file).with_context(|| format!("cannot read {shown}"))?;
    let json: Value =
        serde_json::from_slice(&text).with_context(|| format!("{shown} is no JSON"))?;
    for part in ["announcement_purgatory", "state_events", "pr_events"] {
        collect(&json[part], 0, events);
    }
    Ok(())
}

/// Finds events in whatever they are wrapped in.
fn collect(json: &Value, depth: usize, events: &mut Vec<Event>) {
    const MAX_DEPTH: usize = 8;
    if depth > MAX_DEPTH {
        return;
    }
    if json.get("sig").is_some()
        && let Ok(event) = serde_json::from_value(json.clone())
    {
        events.push(event);
        return;
    }
    match json {
        Value::Array(all) => all.iter().for_each(|it| collect(it, depth + 1, events)),
        Value::Object(all) => all.values().for_each(|it| collect(it, depth + 1, events)),
        _ => {}
    }
}

/// Puts events into the order in which they depend on each other, and leaves out the records that
/// ngit-grasp keeps about itself (L-7, L-10).
pub(super) fn order(events: &mut Vec<Event>, report: &mut Report) {
    events.retain(|event| {
        let is_record = (9_905..=9_907).contains(&event.kind.as_u16());
        if is_record {
            report.skip("records of ngit-grasp about itself");
        }
        !is_record
    });
    events.sort_by_key(|event| (rank(event), event.created_at, event.id));
}

/// Where an event stands among those that depend on each other.
fn rank(event: &Event) -> u8 {
    match event.kind {
        kind if kind == kinds::DELETION || kind.as_u16() == 62 => 0,
        kind if kind == kinds::ANNOUNCEMENT => 1,
        kind if kind == kinds::STATE => 2,
        _ => 3,
    }
}

/// Parts events in their order: up to `most` of one rank are decided together, so that what they rest
/// on was decided before.
pub(super) fn batches(events: Vec<Event>, most: usize) -> Vec<Vec<Event>> {
    let mut batches: Vec<Vec<Event>> = Vec::new();
    for event in events {
        match batches.last_mut() {
            Some(batch) if batch.len() < most && rank(&batch[0]) == rank(&event) => {
                batch.push(event);
            }
            _ => batches.push(vec![event]),
        }
    }
    batches
}

/// The identifier that an announcement announces.
pub(super) fn announced(event: &Event) -> Option<String> {
    let is_one = event.kind == kinds::ANNOUNCEMENT;
    is_one.then(|| first_value(event, "d").map(str::to_owned))?
}

/// The identifier without whose announcement an event is refused.
pub(super) fn needed_announcement(event: &Event) -> Option<&str> {
    let is_state = event.kind == kinds::STATE;
    is_state.then(|| first_value(event, "d"))?
}

/// Why a state is left out that nothing announces.
pub(super) const UNANNOUNCED: &str = "no announcement of their repository is here";

/// Says whether something may still come that makes an event welcome.
pub(super) fn may_come(why: &str) -> bool {
    why == UNANNOUNCED
        || why.contains("not related to any")
        || why.contains("no git data yet")
        || why.starts_with("error:")
}

/// The event as a client would send it.
pub(super) fn message(event: &Event) -> Bytes {
    json!(["EVENT", event]).to_string().into()
}
