//! Who else may have what is missing, by the resolver.

use std::collections::{BTreeSet, HashMap};

use futures_util::{StreamExt as _, stream};
use grip_nostr::{PublicKey, RepoAddr};
use grip_resolve::{Ask, Key, ResolveError, Resolver};
use grip_sync::{Further, Need};
use grip_types::Identifier;
use url::Url;

/// Most owners whose repositories are looked for in one attempt; the rest in the next.
const MAX_OWNERS: usize = 16;
/// Looked for at once, so that one identifier does not take all the places of the resolver.
const AT_ONCE: usize = 4;
/// Most providers of one repository.
const MAX_PROVIDERS: usize = 8;

/// Asks for the providers of every repository that the events speak of.
pub(super) async fn look(
    resolver: &Resolver,
    identifier: &Identifier,
    needs: &[Need],
) -> Vec<Further> {
    let owners: BTreeSet<PublicKey> = needs
        .iter()
        .flat_map(|need| &need.owners)
        .copied()
        .collect();
    let looks = owners.into_iter().take(MAX_OWNERS).map(|owner| async move {
        let name = RepoAddr::new(owner, identifier.clone());
        (owner, providers(resolver, name).await)
    });
    let looks: Vec<_> = looks.collect();
    let found: HashMap<PublicKey, Vec<Url>> = stream::iter(looks)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let of_need = |need: &Need| Further {
        event: need.event,
        urls: need
            .owners
            .iter()
            .filter_map(|owner| found.get(owner))
            .flatten()
            .cloned()
            .collect(),
    };
    needs.iter().map(of_need).collect()
}

async fn providers(resolver: &Resolver, name: RepoAddr) -> Vec<Url> {
    let key = Key::Name(name);
    // What is served here has no other providers by itself: the network is asked all the same.
    let ask = Ask {
        fresh: true,
        ..Ask::default()
    };
    match resolver.providers(&key, MAX_PROVIDERS, None, ask).await {
        Ok(ranked) => ranked.providers.into_iter().map(|it| it.url).collect(),
        Err(ResolveError::Unknown) => Vec::new(),
        Err(error) => {
            tracing::debug!(%key, %error, "no further providers were found");
            Vec::new()
        }
    }
}
