//! Tips of contributor repositories that are out of service and kept.
//!
//! The ref becomes a record of its deletion, as [`crate::RefMove`] writes them: no client is shown it,
//! and what it rests on stays, counted as before. Blocking.
//!
//! Git gives out any object by its id, and one pack may hold what is hidden beside what is not. So as long
//! as a repository has hidden tips, it gives out what its refs name and what that needs, and nothing by
//! other ids.

use std::{
    collections::HashSet,
    io::{self, BufRead as _, BufReader, Read, Seek},
};

use grip_types::{Oid, RefEdit, RefName, RepoAddr};

use super::{RepoError, Repositories};
use crate::{
    pktline::{self, Packet},
    refs::{self, RefSnapshot, RefUpdateError},
};

impl Repositories {
    /// Hides `name`, with the time in unix milliseconds; nothing happens if it is not there.
    pub fn hide_tip(&self, repo: &RepoAddr, name: &RefName, at: u64) -> Result<(), RefUpdateError> {
        let Some(tip) = self.refs(repo)?.get(name).map(|found| found.oid) else {
            return Ok(());
        };
        let hidden = refs::hidden_name(name, at);
        self.update_refs(repo, &moved(name, &hidden, tip), None)
            .map(drop)
    }

    /// Shows `name` again where it was hidden; nothing happens if it is not.
    pub fn show_tip(&self, repo: &RepoAddr, name: &RefName) -> Result<(), RefUpdateError> {
        let refs = self.refs(repo)?;
        let Some((hidden, tip)) = refs.hidden(name) else {
            return Ok(());
        };
        if refs.get(name).is_some() {
            return self.drop_hidden_tip(repo, name);
        }
        self.update_refs(repo, &moved(&hidden, name, tip), None)
            .map(drop)
    }

    /// Removes what is kept of `name`, and what rests on it alone.
    pub fn drop_hidden_tip(&self, repo: &RepoAddr, name: &RefName) -> Result<(), RefUpdateError> {
        let Some((hidden, tip)) = self.refs(repo)?.hidden(name) else {
            return Ok(());
        };
        let edit = RefEdit {
            name: hidden,
            old: Some(tip),
            new: None,
        };
        self.update_refs(repo, &[edit], None)?;
        Ok(self.reclaim_staged(repo)?)
    }

    /// Refuses a fetch of anything but refs while tips are hidden.
    pub(crate) fn check_wants(
        &self,
        repo: &RepoAddr,
        request: &mut (impl Read + Seek),
    ) -> io::Result<()> {
        let refs = self.refs(repo).map_err(io::Error::other)?;
        if refs.moves().filter_map(refs::hidden_tip).next().is_none() {
            return Ok(());
        }
        let shown: HashSet<Oid> = refs.iter().map(|found| found.oid).collect();
        let malformed = || io::Error::other("the request cannot be read");
        request.rewind()?;
        let mut reader = BufReader::new(&mut *request);
        let mut packet = Vec::new();
        while !reader.fill_buf()?.is_empty() {
            packet.resize(4, 0);
            reader.read_exact(&mut packet)?;
            let len = str::from_utf8(&packet).ok();
            let len = len.and_then(|len| usize::from_str_radix(len, 16).ok());
            let rest = len.ok_or_else(malformed)?.saturating_sub(4);
            packet.resize(4 + rest, 0);
            reader.read_exact(&mut packet[4..])?;
            let Ok(Some((packet, _))) = pktline::decode(&packet) else {
                return Err(malformed());
            };
            let Packet::Data(line) = packet else {
                continue;
            };
            let Some(wanted) = line.strip_prefix(b"want ") else {
                continue;
            };
            let hex = wanted.get(..40).and_then(|hex| str::from_utf8(hex).ok());
            let oid: Option<Oid> = hex.and_then(|hex| hex.parse().ok());
            let oid = oid.ok_or_else(malformed)?;
            if !shown.contains(&oid) {
                let reason = format!("upload-pack: not our ref {oid}");
                return Err(io::Error::other(reason));
            }
        }
        request.rewind()
    }

    /// The tips that are hidden in a contributor repository.
    pub fn hidden_tips(&self, repo: &RepoAddr) -> Result<Vec<(RefName, Oid)>, RepoError> {
        let refs = self.refs(repo)?;
        Ok(refs.moves().filter_map(refs::hidden_tip).collect())
    }
}

impl RefSnapshot {
    /// Says whether `name` is at `tip`, shown or hidden.
    pub(super) fn has_tip(&self, name: &RefName, tip: &Oid) -> bool {
        self.get(name).is_some_and(|found| found.oid == *tip)
            || self.hidden(name).is_some_and(|(_, hidden)| hidden == *tip)
    }

    /// The hidden ref that stands for `name`, and its tip.
    pub(super) fn hidden(&self, name: &RefName) -> Option<(RefName, Oid)> {
        let mut hidden = self.moves().filter(|it| it.name == *name);
        hidden.find_map(|it| {
            let at = it.at;
            refs::hidden_tip(it).map(|(name, tip)| (refs::hidden_name(&name, at), tip))
        })
    }
}

fn moved(from: &RefName, to: &RefName, tip: Oid) -> [RefEdit; 2] {
    let edit = |name: &RefName, old, new| RefEdit {
        name: name.clone(),
        old,
        new,
    };
    [edit(from, Some(tip), None), edit(to, None, Some(tip))]
}
