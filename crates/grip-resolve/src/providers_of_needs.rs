//! Providers of git data that events wait for, for the search when nobody named has it.

use std::collections::{BTreeSet, HashMap};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use grip_nostr::{PublicKey, RepoAddr};
use grip_purgatory::{FindProviders, Need, Providers};
use grip_types::Identifier;
use url::Url;

use crate::{Key, ResolveError, ResolveParams, Resolver};

/// Most owners whose repositories are looked for in one attempt.
const MAX_OWNERS: usize = 16;
/// Looked for at once, so that one identifier does not take all the places of the resolver.
const AT_ONCE: usize = 4;
/// Most providers of one repository.
const MAX_PROVIDERS: usize = 8;

/// The providers of each owner's repository; none where no answer came.
type ByOwner = HashMap<PublicKey, Option<Vec<Url>>>;

impl FindProviders for Resolver {
    fn find_providers<'a>(
        &'a self,
        identifier: &'a Identifier,
        needs: &'a [Need],
    ) -> BoxFuture<'a, Vec<Providers>> {
        Box::pin(look_up(self, identifier, needs))
    }
}

/// Asks for the providers of every repository that the events speak of.
async fn look_up(resolver: &Resolver, identifier: &Identifier, needs: &[Need]) -> Vec<Providers> {
    let owners = needs.iter().flat_map(|need| &need.owners).copied();
    let owners = some_of(owners.collect(), rand::random::<u32>() as usize);
    let looks = owners.into_iter().map(|owner| async move {
        let name = RepoAddr::new(owner, identifier.clone());
        (owner, providers(resolver, name).await)
    });
    let looks: Vec<_> = looks.collect();
    let by_owner: ByOwner = stream::iter(looks)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    needs.iter().map(|need| of_event(need, &by_owner)).collect()
}

/// As many as are looked for in one attempt, from the one at `start` on and round again. Anybody
/// may announce an identifier: with a start that is always the same, those with the lowest keys
/// would keep all others out.
fn some_of(owners: BTreeSet<PublicKey>, start: usize) -> Vec<PublicKey> {
    let mut owners: Vec<_> = owners.into_iter().collect();
    let start = start.checked_rem(owners.len()).unwrap_or(0);
    owners.rotate_left(start);
    owners.truncate(MAX_OWNERS);
    owners
}

/// Providers for one event: the best provider of each owner, then the second of each.
fn of_event(need: &Need, by_owner: &ByOwner) -> Providers {
    let answers: Vec<&Vec<Url>> = need
        .owners
        .iter()
        .filter_map(|owner| by_owner.get(owner)?.as_ref())
        .collect();
    let ranked = (0..MAX_PROVIDERS).flat_map(|rank| {
        let of_rank = answers.iter();
        of_rank.filter_map(move |urls| urls.get(rank))
    });
    Providers {
        event: need.event,
        urls: ranked.cloned().collect(),
        is_whole: answers.len() == need.owners.len(),
    }
}

/// The providers of one repository; none if the resolver could not find out.
async fn providers(resolver: &Resolver, name: RepoAddr) -> Option<Vec<Url>> {
    let key = Key::Name(name);
    // What is served here has no other providers by itself: the network is asked all the same.
    let ask = ResolveParams {
        fresh: true,
        ..ResolveParams::default()
    };
    match resolver.providers(&key, MAX_PROVIDERS, None, ask).await {
        Ok(ranked) => Some(ranked.providers.into_iter().map(|it| it.url).collect()),
        Err(ResolveError::Unknown) => Some(Vec::new()),
        Err(error) => {
            tracing::debug!(%key, %error, "failed to look up further providers");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use grip_nostr::EventId;
    use grip_testkit::Author;

    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn keys_below_anothers_do_not_keep_it_out() {
        let owners: BTreeSet<_> = (0..=MAX_OWNERS).map(|_| Author::new().pubkey()).collect();
        let looked: Vec<BTreeSet<_>> = (0..owners.len())
            .map(|start| some_of(owners.clone(), start).into_iter().collect())
            .collect();
        assert!(looked.iter().all(|some| some.len() == MAX_OWNERS));
        for owner in &owners {
            let times = looked.iter().filter(|some| some.contains(owner)).count();
            assert_eq!(times, MAX_OWNERS, "all have the same part");
        }
        assert!(some_of(BTreeSet::new(), 7).is_empty());
    }

    #[test]
    fn an_event_gets_the_providers_of_its_owners_and_whether_all_answered() {
        let [a, b] = [(); 2].map(|()| Author::new().pubkey());
        let need = |owners: &[PublicKey]| Need {
            event: EventId::from_byte_array([1; 32]),
            is_state: true,
            author: a,
            is_served: false,
            oids: BTreeSet::new(),
            urls: Vec::new(),
            owners: owners.to_vec(),
        };
        let [a1, a2, b1] = ["https://a1/", "https://a2/", "https://b1/"].map(url);
        let mut by_owner = ByOwner::from([(a, Some(vec![a1.clone(), a2.clone()]))]);
        let told = of_event(&need(&[a]), &by_owner);
        assert!(told.is_whole && told.urls == [a1.clone(), a2.clone()]);
        assert!(
            !of_event(&need(&[a, b]), &by_owner).is_whole,
            "not looked for"
        );
        by_owner.insert(b, None);
        assert!(!of_event(&need(&[a, b]), &by_owner).is_whole, "no answer");
        by_owner.insert(b, Some(vec![b1.clone()]));
        let told = of_event(&need(&[a, b]), &by_owner);
        assert!(told.is_whole && told.urls == [a1, b1, a2]);
    }
}
