//! Providers that nodes and owners name.

use super::*;
use crate::{NamedBy, node_record::NodeKey, node_record_key};

/// Two nodes of which one has signed its node record and the other shows a node record of the first.
fn two_nodes(manifest: &Manifest) -> (Arc<Script>, NodeKey) {
    let honest = NodeKey::from_seed(&[1; 32]);
    let liar = NodeKey::from_seed(&[2; 32]);
    let urls = vec![Url::parse("https://mirror.example/base").unwrap()];
    let issued = crate::node_record::unix_now();
    let node_record = honest.sign(urls, Some("eu".into()), issued).unwrap();
    let place = |key: &NodeKey| grip_dht::Peer {
        id: key.peer().clone(),
        addresses: vec![],
    };
    let (bytes, record) = (
        manifest.bytes().clone(),
        Key::Name(manifest.name()).record(),
    );
    let providers = vec![place(&honest), place(&liar)];
    let node_records = [node_record_key(honest.peer()), node_record_key(liar.peer())];
    let roots = vec![peer(1), peer(2)];
    let script = Script::new(roots, move |_, asked| {
        let value = match asked {
            asked if *asked == record => Some(bytes.clone()),
            asked if node_records.contains(asked) => Some(node_record.clone()),
            _ => None,
        };
        Ok(Response {
            value,
            providers: providers.clone(),
            closer: vec![],
        })
    });
    (script, honest)
}

#[tokio::test(start_paused = true)]
async fn providers_are_the_urls_of_the_owner_and_of_nodes_that_signed_theirs() {
    let author = Author::new();
    let manifest = manifest_of(&author, "x", 1);
    let (script, honest) = two_nodes(&manifest);
    let node = Node::new(Some(script.clone()), Options::default());
    let key = Key::Name(manifest.name());
    let ranked = node
        .resolver
        .providers(&key, 10, None, ResolveParams::default())
        .await;
    let ranked = ranked.unwrap();
    assert_eq!(ranked.id, manifest.id());
    let npub = author.npub();
    let urls: Vec<_> = ranked
        .providers
        .iter()
        .map(|p| (p.url.as_str(), &p.named_by))
        .collect();
    let mirror = format!("https://mirror.example/base/{npub}/x.git");
    let own = format!("http://git.example/{npub}/x.git");
    let by_node = NamedBy::Node(honest.peer().clone());
    // What the owner says comes first, however old it is.
    assert_eq!(urls, [(&*own, &NamedBy::Owner), (&*mirror, &by_node)]);
    assert_eq!(node.resolver.counters().lies_total, 1);

    let asked = script.asked.load(Relaxed);
    let again = node
        .resolver
        .providers(&key, 1, Some("eu"), ResolveParams::default())
        .await;
    assert_eq!(again.unwrap().providers.len(), 1);
    // The node record of the honest one is remembered.
    assert_eq!(script.asked.load(Relaxed), asked + 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_record_from_the_future_is_ranked_as_an_old_one() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let now = crate::node_record::unix_now();
    let records = [(1, now + 500), (2, now - 3_600)].map(|(seed, issued)| {
        let key = NodeKey::from_seed(&[seed; 32]);
        let url = Url::parse(&format!("https://node{seed}.example/")).unwrap();
        let record = key.sign(vec![url], None, issued).unwrap();
        (key.peer().clone(), record)
    });
    let providers = records.clone().map(|(id, _)| grip_dht::Peer {
        id,
        addresses: vec![],
    });
    let bytes = manifest.bytes().clone();
    let script = Script::new(vec![peer(1), peer(2)], move |_, asked| {
        let record = records.iter().find(|(id, _)| node_record_key(id) == *asked);
        let value = record.map_or(&bytes, |(_, record)| record);
        Ok(Response {
            value: Some(value.clone()),
            providers: providers.to_vec(),
            closer: vec![],
        })
    });
    let node = Node::new(Some(script), Options::default());
    let key = Key::Name(manifest.name());
    let params = ResolveParams::default();
    let ranked = node.resolver.providers(&key, 9, None, params).await;
    let ranked = ranked.unwrap().providers;
    let hosts: Vec<_> = ranked.iter().filter_map(|it| it.url.host_str()).collect();
    assert_eq!(hosts, ["git.example", "node2.example", "node1.example"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_blamed_for_the_time_that_we_did_not_have() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (memory, node) = everywhere(&manifest, ms(20));
    let key = Key::Name(manifest.name());
    let far = memory.by_distance(&key.record()).into_iter().rev();
    let mut far = far.filter(|name| *name != memory.names()[0]);
    let silent = far.next().unwrap();
    for name in memory.names() {
        memory.provide(name, &key.record(), &silent);
    }
    node.resolve(&key).await.unwrap();
    memory.fault(&silent, Fault::Stall);
    let hurried = ResolveParams {
        deadline: Some(ms(100)),
        ..ResolveParams::default()
    };
    let shut = || node.resolver.status().breakers;
    for (params, is_blamed) in [(hurried, false), (ResolveParams::default(), true)] {
        let before = memory.asked(&silent);
        for _ in 0..4 {
            let ranked = node.resolver.providers(&key, 9, None, params).await;
            assert_eq!(ranked.unwrap().providers.len(), 1);
        }
        // One that is blamed is not asked any more.
        assert!(is_blamed || memory.asked(&silent) - before >= 4);
        assert_eq!(shut().iter().any(|(name, _)| *name == silent), is_blamed);
    }
}
