//! Former tips: what refs named until a while ago.
//!
//! A client that was told of a tip may be fetching it, or building on it. So what a ref names no longer is
//! kept for the grace time, as a reflog would keep it. Each store has two lists, one line a tip: for
//! `refs/nostr/*`, which strangers move, and for the rest. A list that grows beyond [`MAX_BYTES`] loses
//! its older half.
//!
//! A line that a crash loses shortens a grace time; nobody fetches across a crash.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use grip_types::{Identifier, Oid, RefEdit};

use super::Inner;
use crate::{disk, refs::RefSnapshot};

const MAX_BYTES: usize = 1 << 20;

const OF_PEOPLE: &str = "former-tips";
const OF_EVENTS: &str = "former-nostr-tips";

impl Inner {
    /// Notes what `edits` take from `before`. The caller holds the lock.
    pub(super) fn note_former_tips(
        &self,
        identifier: &Identifier,
        before: &RefSnapshot,
        edits: &[RefEdit],
    ) {
        for list in [OF_PEOPLE, OF_EVENTS] {
            let own = edits
                .iter()
                .filter(|edit| edit.name.is_under_nostr() == (list == OF_EVENTS));
            let former = own.filter_map(|edit| {
                let old = before.get(&edit.name)?.oid;
                (edit.new != Some(old)).then_some(old)
            });
            let at = seconds(SystemTime::now());
            let lines: String = former.map(|oid| format!("{at} {oid}\n")).collect();
            if lines.is_empty() {
                continue;
            }
            if let Err(error) = append(self.former_tips(identifier, list), &lines) {
                tracing::warn!(%identifier, %error, "failed to note what a ref named");
            }
        }
    }

    /// What refs named at `since` or later. Those of before are forgotten. The caller holds the lock.
    pub(super) fn recent_tips(
        &self,
        identifier: &Identifier,
        since: SystemTime,
    ) -> io::Result<Vec<Oid>> {
        let mut recent = Vec::new();
        for list in [OF_PEOPLE, OF_EVENTS] {
            let path = self.former_tips(identifier, list);
            let Some(text) = disk::read(&path)? else {
                continue;
            };
            let text = String::from_utf8_lossy(&text);
            let is_recent = |line: &&str| {
                let at = line.split_once(' ').and_then(|(at, _)| at.parse().ok());
                at.is_none_or(|at: u64| at >= seconds(since))
            };
            let kept: Vec<&str> = text.lines().filter(is_recent).collect();
            recent.extend(
                kept.iter()
                    .filter_map(|line| line.split_once(' ')?.1.parse::<Oid>().ok()),
            );
            if kept.is_empty() {
                disk::remove_file(&path)?;
            } else if kept.len() < text.lines().count() {
                disk::replace(&path, (kept.join("\n") + "\n").as_bytes())?;
            }
        }
        Ok(recent)
    }

    fn former_tips(&self, identifier: &Identifier, list: &str) -> PathBuf {
        self.layout.store(identifier).join(list)
    }
}

fn append(path: PathBuf, lines: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    file.write_all(lines.as_bytes())?;
    if file.metadata()?.len() as usize <= MAX_BYTES {
        return Ok(());
    }
    let text = fs::read_to_string(&path)?;
    let half = text.len() / 2;
    let from = text[half..].find('\n').map_or(half, |end| half + end + 1);
    disk::replace(&path, &text.as_bytes()[from..])
}

fn seconds(time: SystemTime) -> u64 {
    let since_1970 = time.duration_since(UNIX_EPOCH);
    since_1970.unwrap_or(Duration::ZERO).as_secs()
}
