//! Peers of the DHT: those of earlier runs, and those that followed relays name.
//!
//! A node finds its way back into the network without its first peers, and into it without any list:
//! a GRASP server that takes part says so in its NIP-11 document. A peer that is named is dialled,
//! if its address may be, and counts only once it has shown that it is a member.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use grip_dht::{Dht as _, kademlia::Kademlia};
use grip_follow::Follow;
use grip_tasks::TaskGroup;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The file in the data directory, a peer a line.
const FILE: &str = "dht-peers";
/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Peers that are saved, and how many of them are dialled at the start.
const SAVED: usize = 64;
const DIALLED: usize = 16;
/// With fewer peers in the table, those that relays name are dialled.
const ENOUGH_PEERS: usize = 8;
/// How often the table is looked at, and every how many looks it is saved.
const INTERVAL: Duration = Duration::from_secs(10);
const LOOKS_PER_SAVE: u64 = 6;
/// How long a peer that a relay names is left alone after it was dialled.
const REDIAL: Duration = Duration::from_secs(5 * 60);

/// Dials known peers and keeps the file up to date, until `group` stops.
pub(super) fn start(
    dht: Arc<Kademlia>,
    follow: Option<Follow>,
    data_dir: &Path,
    group: &TaskGroup,
) {
    let peers = Peers {
        dht,
        follow,
        file: data_dir.join(FILE),
        group: group.clone(),
        saved: Vec::new(),
        dialled: HashMap::new(),
    };
    let stop = group.token();
    group.spawn("dht.peers", async move {
        stop.run_until_cancelled(peers.run()).await;
    });
}

struct Peers {
    dht: Arc<Kademlia>,
    follow: Option<Follow>,
    file: PathBuf,
    group: TaskGroup,
    saved: Vec<String>,
    /// Bounded by what relays name.
    dialled: HashMap<String, Instant>,
}

impl Peers {
    async fn run(mut self) {
        self.saved = self.read().await;
        let before = &self.saved[..self.saved.len().min(DIALLED)];
        if !before.is_empty() {
            let dialled = self.dht.meet(before).await;
            tracing::info!(dialled, "dialling peers of the last run");
        }
        let mut tick = interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 1_u64.. {
            tick.tick().await;
            if self.dht.status().known_peers < ENOUGH_PEERS {
                self.meet_named().await;
            }
            if look.is_multiple_of(LOOKS_PER_SAVE) || self.saved.is_empty() {
                self.save().await;
            }
        }
    }

    /// Dials the peers that followed relays name.
    async fn meet_named(&mut self) {
        let Some(follow) = &self.follow else {
            return;
        };
        let named = follow.dht_peers();
        let now = Instant::now();
        self.dialled
            .retain(|peer, at| named.contains(peer) && now < *at + REDIAL);
        let mut next = named;
        next.retain(|peer| !self.dialled.contains_key(peer));
        next.truncate(DIALLED);
        if next.is_empty() {
            return;
        }
        let dialled = self.dht.meet(&next).await;
        tracing::debug!(dialled, "dialling peers that followed relays name");
        self.dialled
            .extend(next.into_iter().map(|peer| (peer, now)));
    }

    async fn save(&mut self) {
        let good = self.dht.good_peers(SAVED).await;
        // A table that is empty for the moment is no reason to forget the way back.
        if good.is_empty() || good == self.saved {
            return;
        }
        let (file, text) = (self.file.clone(), good.join("\n") + "\n");
        let writing = self
            .group
            .spawn_blocking("dht.peers.file", move || write(&file, &text));
        match writing.await {
            Ok(Ok(())) => self.saved = good,
            Ok(Err(error)) => {
                tracing::warn!(%error, file = %self.file.display(), "failed to save peers");
            }
            Err(_) => {}
        }
    }

    async fn read(&self) -> Vec<String> {
        let file = self.file.clone();
        let reading = self
            .group
            .spawn_blocking("dht.peers.file", move || read(&file));
        match reading.await {
            Ok(Ok(saved)) => saved,
            Ok(Err(error)) => {
                tracing::warn!(%error, file = %self.file.display(), "failed to read saved peers");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }
}

fn read(file: &Path) -> io::Result<Vec<String>> {
    let bytes = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?.len(),
    };
    if bytes > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too long"));
    }
    let text = fs::read_to_string(file)?;
    Ok(text.lines().take(SAVED).map(str::to_owned).collect())
}

/// In the place of the old file as a whole.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_peers_are_read_as_they_were_written_and_a_strange_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        assert!(read(&file).unwrap().is_empty());
        write(
            &file,
            "/ip4/1.1.1.1/tcp/1/p2p/a\n/ip4/1.1.1.2/tcp/1/p2p/b\n",
        )
        .unwrap();
        assert_eq!(read(&file).unwrap().len(), 2);
        write(&file, &"x\n".repeat(100)).unwrap();
        assert_eq!(read(&file).unwrap().len(), SAVED);
        write(&file, &"x".repeat(100_000)).unwrap();
        assert!(read(&file).is_err());
    }
}
