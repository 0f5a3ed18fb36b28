//! The choice of the URL to ask next, and the hosts that cannot be asked now.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::Ordering::Relaxed,
};

use grip_purgatory::SyncContext;
use grip_types::{Domain, Identifier};
use tokio::time::Instant;

use super::{Next, Progress, ThrottledDomain};
use crate::{
    engine::Engine,
    fetch::Fetch,
    plan::{Plan, Target},
};

enum Look {
    Plan(Plan),
    Complete,
    Unknown,
}

async fn look<C: SyncContext, F: Fetch>(engine: &Engine<C, F>, identifier: &Identifier) -> Look {
    match engine.context.needs(identifier).await {
        Ok(needs) if needs.is_empty() => Look::Complete,
        Ok(mut needs) => {
            let mut providers = engine.memory.providers();
            providers.add_to(identifier, &mut needs, Instant::now());
            drop(providers);
            engine.retain_paid(identifier, &mut needs);
            Look::Plan(Plan::of(&needs))
        }
        Err(error) => {
            engine.log_fault(identifier, &error);
            Look::Unknown
        }
    }
}

/// Finds the next URL to ask: any whose host has capacity, or one of `domain`.
pub(crate) async fn sync_identifier_next_url<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    domain: Option<&Domain>,
    progress: &Progress,
) -> Next {
    let plan = match look(engine, identifier).await {
        Look::Plan(plan) => plan,
        Look::Complete => return Next::Complete,
        Look::Unknown => {
            let throttled = Vec::new();
            return Next::Nobody { throttled };
        }
    };
    let has_capacity = |target: &Target| match domain {
        Some(domain) => target.domain == *domain,
        None => {
            !progress.refused.contains(&target.domain) && !engine.queues.must_wait(&target.domain)
        }
    };
    let mut targets = plan
        .healthy_first(|domain| engine.throttle.failures(domain))
        .into_iter();
    let found = targets.find(|target| {
        !progress.has_tried(target)
            && has_capacity(target)
            && engine.may_ask(identifier, &target.url)
            && !is_left_alone(engine, identifier, target, domain.is_some(), progress)
    });
    if let Some(target) = found {
        return Next::Ask(target.clone());
    }
    let throttled = if domain.is_none() {
        get_throttled_domains_with_untried_urls(engine, identifier, &plan, progress)
    } else {
        Vec::new()
    };
    Next::Nobody { throttled }
}

/// Looks up further providers of what is missing; says whether there is a new one to ask.
pub(super) async fn look_further<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
) -> bool {
    let Ok(mut needs) = engine.context.needs(identifier).await else {
        return false;
    };
    engine.retain_paid(identifier, &mut needs);
    if needs.is_empty() {
        return false;
    }
    engine.memory.counters.further.fetch_add(1, Relaxed);
    let looking = engine.providers.find_providers(identifier, &needs);
    let Some(found) = engine.stop.run_until_cancelled(looking).await else {
        return false;
    };
    let mut providers = engine.memory.providers();
    providers.put(identifier, &needs, found, Instant::now())
}

/// Whether a URL pauses, which is noted once. A new event may ask it all the same, once, for what
/// it was not asked for before; in its turn in line too, although its first attempt is over then.
fn is_left_alone<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    target: &Target,
    is_turn: bool,
    progress: &Progress,
) -> bool {
    let (url, now) = (&target.url, Instant::now());
    if !engine.memory.pauses().is_on(url, now) || engine.memory.is_resuming(identifier, url) {
        return false;
    }
    if progress.insists {
        engine.memory.pauses().end(url);
        return false;
    }
    let is_new = engine.context.attempt_count(identifier) <= u32::from(is_turn);
    if is_new && !engine.memory.pauses().is_for(url, &target.wants) {
        return false;
    }
    engine.note_pause(identifier, url, now);
    true
}

/// The hosts with URLs that were skipped because the host is at its limits.
///
/// Only [`sync_identifier_next_url`] calls it, after it found no URL to ask: what is untried and
/// may be asked was skipped for its host alone. Whether the host is at its limits is not read a
/// second time. It may have capacity by now, and a host that is neither asked nor queued for would
/// wait for the backoff; the line itself asks for a permit as soon as somebody joins it.
fn get_throttled_domains_with_untried_urls<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    plan: &Plan,
    progress: &Progress,
) -> Vec<ThrottledDomain> {
    let mut throttled: Vec<ThrottledDomain> = Vec::new();
    let mut places: HashMap<&Domain, usize> = HashMap::new();
    for target in plan.targets() {
        let domain = &target.domain;
        let is_left = !progress.has_tried(target)
            && !places.contains_key(domain)
            && engine.may_ask(identifier, &target.url)
            && !is_left_alone(engine, identifier, target, false, progress);
        if is_left {
            places.insert(domain, throttled.len());
            throttled.push(ThrottledDomain {
                domain: domain.clone(),
                tried: HashSet::new(),
                owners: Vec::new(),
            });
        }
    }
    for target in plan.targets() {
        let Some(place) = places.get(&target.domain) else {
            continue;
        };
        if progress.has_tried(target) {
            throttled[*place].tried.insert(target.url.clone());
        } else {
            throttled[*place].owners.extend(&target.owners);
        }
    }
    throttled
}
