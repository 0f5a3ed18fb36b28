//! The rule that both sides must agree: follow the lead from the owner, then confirm by mutual
//! listing (G01-72, G01-74, G01-75).

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use nostr::prelude::PublicKey;

use super::{Link, LinkKind, MAX_KEYS, MaintainerSet, WhyEmpty, roster::Roster};
use crate::Announcement;

/// How many leads are followed.
const MAX_STEPS: usize = 64;

pub(super) fn set<'a>(
    owner: &PublicKey,
    newest: impl Fn(&PublicKey) -> Option<&'a Announcement>,
) -> MaintainerSet {
    let read = RefCell::new(BTreeMap::new());
    let roster = |key: &PublicKey| -> Option<Rc<Roster>> {
        let mut read = read.borrow_mut();
        let of = || newest(key).map(|it| Rc::new(Roster::read(it)));
        read.entry(*key).or_insert_with(of).clone()
    };
    let mut links = Vec::new();
    match find_lead(owner, &roster, &mut links) {
        Ok(lead) => confirm(lead, &roster, links),
        Err(why) => MaintainerSet::empty(why),
    }
}

/// The end of the lead walk.
fn find_lead(
    owner: &PublicKey,
    roster: &impl Fn(&PublicKey) -> Option<Rc<Roster>>,
    links: &mut Vec<Link>,
) -> Result<PublicKey, WhyEmpty> {
    let mut key = *owner;
    let mut seen = BTreeSet::from([key]);
    for _ in 0..MAX_STEPS {
        let is_first = key == *owner;
        let Some(roster) = roster(&key) else {
            return Err(if is_first {
                WhyEmpty::Missing
            } else {
                WhyEmpty::LeadMissing
            });
        };
        let mut leads = roster.leads.iter();
        let lead = match (leads.next(), leads.next()) {
            (None, _) if is_first && roster.is_author_active => return Ok(key),
            (None, _) if is_first => return Err(WhyEmpty::Inactive),
            // Only who calls itself lead ends a path that was followed.
            (None, _) => return Err(WhyEmpty::Incomplete),
            (Some(_), Some(_)) => return Err(WhyEmpty::Ambiguous),
            (Some(lead), None) => *lead,
        };
        if lead == key {
            return Ok(key);
        }
        if !seen.insert(lead) {
            return Err(WhyEmpty::Cycle);
        }
        links.push(Link {
            by: key,
            key: lead,
            kind: LinkKind::Leads,
        });
        key = lead;
    }
    Err(WhyEmpty::Cycle)
}

/// Everybody who is confirmed from `lead`, and who is invited.
///
/// The order in which keys are looked at cannot change who is confirmed: a key that lists a
/// confirmed one does so in every order.
fn confirm(
    lead: PublicKey,
    roster: &impl Fn(&PublicKey) -> Option<Rc<Roster>>,
    mut links: Vec<Link>,
) -> MaintainerSet {
    let mut keys = BTreeSet::from([lead]);
    // Those whom a confirmed key lists, with the first who does.
    let mut listed: Vec<(PublicKey, PublicKey)> = Vec::new();
    let mut is_listed: BTreeSet<PublicKey> = BTreeSet::new();
    let mut unread = vec![lead];
    loop {
        for by in std::mem::take(&mut unread) {
            let Some(roster) = roster(&by) else {
                continue;
            };
            let new = roster.listed.iter().filter(|key| !is_listed.contains(*key));
            let new: Vec<PublicKey> = new.take(MAX_KEYS).copied().collect();
            is_listed.extend(new.iter().copied());
            listed.extend(new.into_iter().map(|key| (key, by)));
        }
        for (key, by) in &listed {
            let accepts = || {
                let answer = roster(key);
                answer.is_some_and(|answer| answer.is_author_active && answer.lists_any(&keys))
            };
            if keys.len() < MAX_KEYS && !keys.contains(key) && accepts() {
                keys.insert(*key);
                unread.push(*key);
                links.push(Link {
                    by: *by,
                    key: *key,
                    kind: LinkKind::Accepted,
                });
            }
        }
        if unread.is_empty() {
            break;
        }
    }
    let mut invited = BTreeSet::new();
    for (key, by) in listed {
        if keys.contains(&key) {
            continue;
        }
        let kind = match roster(&key) {
            None => LinkKind::Invited,
            Some(own) if own.is_author_active => LinkKind::Unanswered,
            Some(_) => LinkKind::Left,
        };
        if kind != LinkKind::Left {
            invited.insert(key);
        }
        links.push(Link { by, key, kind });
    }
    MaintainerSet {
        keys,
        invited,
        links,
        lead: Some(lead),
        why_empty: None,
    }
}
