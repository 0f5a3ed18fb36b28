//! Who else may have what is missing, by the resolver.

use std::collections::{BTreeSet, HashMap};

use futures_util::{StreamExt as _, stream};
use grip_nostr::{PublicKey, RepoAddr};
use grip_resolve::{Key, ResolveError, ResolveParams, Resolver};
use grip_sync::{Further, Need};
use grip_types::Identifier;
use url::Url;

/// Most owners whose repositories are looked for in one attempt.
const MAX_OWNERS: usize = 16;
/// Looked for at once, so that one identifier does not take all the places of the resolver.
const AT_ONCE: usize = 4;
/// Most providers of one repository.
const MAX_PROVIDERS: usize = 8;

/// The providers of each owner's repository; none where no answer came.
type Heard = HashMap<PublicKey, Option<Vec<Url>>>;

/// Asks for the providers of every repository that the events speak of.
pub(super) async fn look(
    resolver: &Resolver,
    identifier: &Identifier,
    needs: &[Need],
) -> Vec<Further> {
    let owners = needs.iter().flat_map(|need| &need.owners).copied();
    let owners = some_of(owners.collect(), rand::random::<u32>() as usize);
    let looks = owners.into_iter().map(|owner| async move {
        let name = RepoAddr::new(owner, identifier.clone());
        (owner, providers(resolver, name).await)
    });
    let looks: Vec<_> = looks.collect();
    let heard: Heard = stream::iter(looks)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    needs.iter().map(|need| of_event(need, &heard)).collect()
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

/// What was heard for one event: the best provider of each owner, then the second of each.
fn of_event(need: &Need, heard: &Heard) -> Further {
    let answers: Vec<&Vec<Url>> = need
        .owners
        .iter()
        .filter_map(|owner| heard.get(owner)?.as_ref())
        .collect();
    let ranked = (0..MAX_PROVIDERS).flat_map(|rank| {
        let of_rank = answers.iter();
        of_rank.filter_map(move |urls| urls.get(rank))
    });
    Further {
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
            tracing::debug!(%key, %error, "further providers could not be looked for");
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
    fn an_event_is_told_what_was_heard_and_whether_that_is_all() {
        let [a, b] = [(); 2].map(|()| Author::new().pubkey());
        let need = |owners: &[PublicKey]| Need {
            event: EventId::from_byte_array([1; 32]),
            is_state: true,
            oids: BTreeSet::new(),
            urls: Vec::new(),
            owners: owners.to_vec(),
        };
        let [a1, a2, b1] = ["https://a1/", "https://a2/", "https://b1/"].map(url);
        let mut heard = Heard::from([(a, Some(vec![a1.clone(), a2.clone()]))]);
        let told = of_event(&need(&[a]), &heard);
        assert!(told.is_whole && told.urls == [a1.clone(), a2.clone()]);
        assert!(!of_event(&need(&[a, b]), &heard).is_whole, "not looked for");
        heard.insert(b, None);
        assert!(!of_event(&need(&[a, b]), &heard).is_whole, "no answer");
        heard.insert(b, Some(vec![b1.clone()]));
        let told = of_event(&need(&[a, b]), &heard);
        assert!(told.is_whole && told.urls == [a1, b1, a2]);
    }
}
