//! What to make of an answer, or of none.

use std::time::Duration;

use grip_dht::{AskError, PeerName};
use tokio::time::Instant;

use super::{
    Walk,
    end::End,
    question::{Asked, Heard},
};
use crate::{Key, breaker::Outcome, counters::count};

impl Walk<'_> {
    pub(super) fn take(&mut self, asked: Asked) -> Option<End> {
        let Asked { peer, pass, heard } = asked;
        match heard {
            Ok(heard) => {
                let outcome = if heard.is_lie() {
                    Outcome::Bad
                } else {
                    Outcome::Good
                };
                pass.end(outcome);
                let end = self.hear(&peer, heard);
                end.or_else(|| self.is_satisfied().then_some(End::Satisfied))
            }
            Err(error) => {
                let outcome = if error.is_fault_of_peer() {
                    Outcome::Bad
                } else {
                    Outcome::Neither
                };
                pass.end(outcome);
                self.fail(&peer, error);
                self.is_satisfied().then_some(End::Satisfied)
            }
        }
    }

    fn hear(&mut self, peer: &PeerName, heard: Heard) -> Option<End> {
        let roots = self.frontier.answered(peer);
        let depth = self.frontier.depth(peer);
        match heard {
            Heard::Lie => {
                count(&self.network.counters.lies_total);
                None
            }
            Heard::NoManifest => Some(End::NoManifest),
            Heard::Nothing(named) => {
                self.tally.answered += 1;
                self.frontier.learn(peer, named);
                None
            }
            Heard::Manifest(manifest, named) => {
                self.tally.answered += 1;
                self.tally.hops = depth;
                self.frontier.learn(peer, named);
                self.answers.push(manifest);
                self.voices.push(roots);
                self.is_provider_heard |= self.frontier.is_provider(peer);
                let enough = (Instant::now() + self.options.hedge).min(self.last);
                self.settle_at = Some(self.settle_at.map_or(enough, |at| at.min(enough)));
                None
            }
        }
    }

    /// A digest is proven by one answer. For a name two voices are heard, and one who has the thing
    /// itself if such a one was asked: others may hold what it has outgrown.
    pub(super) fn is_satisfied(&self) -> bool {
        let is_one = |voices: &[Vec<PeerName>]| match voices {
            [first, rest @ ..] => first.len() == 1 && rest.iter().all(|voice| voice == first),
            [] => true,
        };
        match self.key {
            Key::Manifest(_) => self.is_held || !self.voices.is_empty(),
            Key::Name(_) => {
                let is_awaited = !self.is_provider_heard && self.frontier.awaits_provider();
                self.voices.len() >= 2 && !is_one(&self.voices) && !is_awaited
            }
        }
    }

    fn fail(&mut self, peer: &PeerName, error: AskError) {
        self.tally.busy += u32::from(error == AskError::Refused || error == AskError::Overloaded);
        let now = Instant::now();
        let is_shut = self.network.breakers.shut_until(peer, now).is_some();
        if error.may_retry() && !is_shut {
            let wait = rand::random_range(50..=100);
            let at = now + Duration::from_millis(wait);
            self.frontier.again(peer, at, self.options.retries);
        } else {
            self.frontier.give_up(peer);
        }
    }
}
