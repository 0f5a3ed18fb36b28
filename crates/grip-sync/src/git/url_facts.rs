//! The facts known of one URL.

use std::collections::BTreeSet;

use grip_git::remote::MAX_WANTS;
use grip_types::Oid;
use tokio::time::Instant;

use super::exchange::{Lesson, Step};

/// Objects remembered that a host said it lacks.
const MAX_LACKS: usize = 256;
/// What an object takes in a set.
pub(super) const BYTES_PER_OID: usize = 2 * size_of::<Oid>();

#[derive(Clone, Debug)]
pub(super) struct UrlFacts {
    /// Not believed any longer after this.
    pub(super) until: Instant,
    pub(super) is_v0: bool,
    /// It has shown which version it speaks.
    pub(super) is_sure: bool,
    /// It has not all that was wanted of it.
    is_partial: bool,
    lacks: BTreeSet<Oid>,
    /// The wanted objects among its refs, if they were just listed.
    pub(super) tips: Option<BTreeSet<Oid>>,
    /// It was last asked in hope for what comes first.
    is_turn_of_rest: bool,
}

impl UrlFacts {
    pub(super) fn new(until: Instant, is_v0: bool) -> Self {
        Self {
            until,
            is_v0,
            is_sure: false,
            is_partial: false,
            lacks: BTreeSet::new(),
            tips: None,
            is_turn_of_rest: false,
        }
    }

    /// Bytes that it takes, more or less.
    pub(super) fn weight(&self) -> usize {
        let oids = self.lacks.len() + self.tips.as_ref().map_or(0, BTreeSet::len);
        size_of::<Self>() + oids * BYTES_PER_OID
    }

    /// Wanted objects that it never said it lacks.
    pub(super) fn untried(&self, wants: &BTreeSet<Oid>) -> Vec<Oid> {
        wants.difference(&self.lacks).copied().collect()
    }

    /// What to ask it for although it may not have it. One object that it lacks spoils the whole
    /// request: once it lacked any, what comes first and the rest take turns.
    pub(super) fn in_hope(&mut self, wants: &BTreeSet<Oid>, first: &BTreeSet<Oid>) -> Vec<Oid> {
        let untried = self.untried(wants);
        if !self.is_partial {
            return untried;
        }
        let is_first = |oid: &Oid| first.contains(oid);
        let (first, rest): (Vec<Oid>, Vec<Oid>) = untried.into_iter().partition(is_first);
        let is_turn_of_rest = first.is_empty() || self.is_turn_of_rest && !rest.is_empty();
        self.is_turn_of_rest = !is_turn_of_rest;
        if is_turn_of_rest { rest } else { first }
    }

    pub(super) fn step_v2(&mut self, wants: &BTreeSet<Oid>, first: &BTreeSet<Oid>) -> Step {
        let mut oids: Vec<Oid> = match &self.tips {
            // So that those that come first are not cut off.
            _ if !self.is_partial => {
                let rest = wants.difference(first);
                wants.intersection(first).chain(rest).copied().collect()
            }
            None => return Step::ListRefs,
            Some(tips) => tips.intersection(wants).copied().collect(),
        };
        if oids.is_empty() {
            oids = self.in_hope(wants, first);
        }
        if oids.is_empty() {
            return Step::ListRefs;
        }
        oids.truncate(MAX_WANTS);
        Step::FetchV2(oids)
    }

    pub(super) fn lacks(&mut self, oid: Oid, asked: &[Oid], wants: &BTreeSet<Oid>) -> Lesson {
        let was_whole = !self.is_partial;
        self.is_partial = true;
        self.is_sure = true;
        self.tips = None;
        if asked.contains(&oid) && self.lacks.len() < MAX_LACKS {
            self.lacks.insert(oid);
        }
        // With its refs it may still serve the others.
        let resume = was_whole && !self.is_v0 && !self.untried(wants).is_empty();
        Lesson::answer(resume, format!("the host does not have {}", oid.short()))
    }

    /// It refused a request for several objects and did not say why. Perhaps it lacks one, which
    /// must not keep the others from being fetched: the next attempt begins with its refs.
    pub(super) fn doubt(&mut self) -> Lesson {
        self.is_partial = true;
        self.tips = None;
        Lesson::default()
    }

    pub(super) fn refs(&mut self, tips: &BTreeSet<Oid>, wants: &BTreeSet<Oid>) -> Lesson {
        self.is_sure = true;
        let tips: BTreeSet<Oid> = tips.intersection(wants).copied().collect();
        let note = match tips.len() {
            0 => "none of its refs points at what is missing".to_owned(),
            some => format!("its refs point at {some} of the missing objects"),
        };
        let resume = !tips.is_empty();
        self.tips = Some(tips);
        Lesson::answer(resume, note)
    }

    pub(super) fn not_understood(&mut self, is_certain: bool) -> Lesson {
        if self.is_sure {
            return Lesson::default();
        }
        self.is_v0 = true;
        if !is_certain {
            return Lesson::default();
        }
        Lesson::answer(true, "the host speaks only git protocol version 0")
    }
}
