//! How a node enters the network.

use std::{collections::HashSet, future::Future, pin::Pin, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use libp2p::{
    Multiaddr, PeerId, Swarm, futures::StreamExt as _, identity::Keypair, swarm::SwarmEvent,
};
use tokio::sync::{Semaphore, mpsc};

use super::{
    Kademlia, Options, address,
    asking::Asking,
    behaviour::{self, Behaviour},
    desk::{Desk, Passes},
    judging::Judging,
    node::{Changed, Node, Queues},
    publishing::{Own, UnderWay},
    shared::Shared,
};
use crate::{DhtError, Judge, Local};

/// Commands of callers that wait for the swarm task; beyond, a question is refused.
const COMMANDS: usize = 256;

/// Records of others that wait to be judged, in all and from one peer; beyond, they are dropped.
const OFFERS: usize = 256;
const OFFERS_PER_PEER: usize = 64;

/// Orders on their way from the judge to the swarm task; beyond, the judge waits.
const ORDERS: usize = 16;

/// How long to wait until we know where we listen.
const LISTEN: Duration = Duration::from_secs(5);

/// Enters the network and returns as soon as it listens; peers are met afterwards.
///
/// All tasks are in a child of `group`, and end when it is shut down.
pub async fn start(
    options: Options,
    local: Arc<dyn Local>,
    judge: Arc<dyn Judge>,
    group: &TaskGroup,
) -> Result<Kademlia, DhtError> {
    let places = Places::read(&options)?;
    let keys = keys(&options)?;
    let own = keys.public().to_peer_id();
    let name = address::name(&own).ok_or_else(|| behaviour::setup("a peer has no name"))?;
    let shared = Arc::new(Shared::new(name.clone()));
    let group = group.child("dht");

    let (lookup_sender, lookups) = mpsc::channel(options.max_answering.max(1));
    let desk = Arc::new(Desk::new(
        group.clone(),
        local,
        lookup_sender,
        Arc::clone(&shared),
        options.answer_timeout,
        Passes::new(options.max_answering, options.max_answering_per_peer),
    ));
    let policy = options.policy();
    let taking = Arc::new(move |peer, stream| desk.receive(peer, stream));
    let asking = Asking::new(taking);
    let behaviour = Behaviour::new(&options, &keys, &name, &places.bootstrap, &shared, asking)?;
    let named = places.bootstrap.iter().map(|(_, address)| address.clone());
    let executor = executor(&group);
    let mut swarm = behaviour::swarm(
        &options,
        &keys,
        named.collect(),
        &shared,
        behaviour,
        executor,
    )?;
    listen(&mut swarm, &places, policy).await?;

    let (command_sender, commands) = mpsc::channel(COMMANDS);
    let (offer_sender, offers) = mpsc::channel(OFFERS);
    let (order_sender, orders) = mpsc::channel(ORDERS);
    let (wish_sender, wishes) = mpsc::channel(options.max_publishing.max(1));
    let judging = Judging {
        judge,
        group: group.clone(),
        shared: Arc::clone(&shared),
        wishes,
        offers,
        orders: order_sender,
    };
    let mut node = Node {
        swarm,
        own,
        policy,
        network: behaviour::network(&options)?,
        bootstrap: places.bootstrap,
        bootstrap_ticks: options.bootstrap_every.as_secs().max(1),
        shared: Arc::clone(&shared),
        offers: offer_sender,
        offering: Arc::new(Passes::new(OFFERS, OFFERS_PER_PEER)),
        record_ttl: options.record_ttl,
        published: Own::new(options.max_published, options.republish_every),
        under_way: UnderWay::default(),
        ticks: 0,
        changed: Changed {
            places: true,
            ..Changed::default()
        },
    };
    node.show();
    let queues = Queues {
        commands,
        lookups,
        orders,
    };
    let stop = group.token();
    group.spawn("swarm", node.run(queues, stop.clone()));
    group.spawn("judging", judging.run());
    Ok(Kademlia {
        own,
        policy,
        ask_timeout: options.ask_timeout,
        shared,
        commands: command_sender,
        wishes: wish_sender,
        asking: Arc::new(Passes::new(options.max_asking, options.max_asking_per_peer)),
        publishing: Arc::new(Semaphore::new(options.max_publishing.max(1))),
        stop,
    })
}

fn keys(options: &Options) -> Result<Keypair, DhtError> {
    Keypair::ed25519_from_bytes(options.seed).map_err(|error| DhtError::InvalidKey {
        reason: error.to_string(),
    })
}

/// The operator's addresses, read.
struct Places {
    listen: Vec<Multiaddr>,
    external: Vec<Multiaddr>,
    bootstrap: Vec<(PeerId, Multiaddr)>,
}

impl Places {
    fn read(options: &Options) -> Result<Self, DhtError> {
        let policy = options.policy();
        let listen = options.listen.iter().map(|text| address::listen(text));
        let external = options.external.iter();
        let bootstrap = options.bootstrap.iter();
        Ok(Self {
            listen: listen.collect::<Result<_, _>>()?,
            external: external
                .map(|text| address::external(text, policy))
                .collect::<Result<_, _>>()?,
            bootstrap: bootstrap
                .map(|text| address::bootstrap(text, policy))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Gives every connection a task of `group` that ends with it.
fn executor(group: &TaskGroup) -> impl libp2p::swarm::Executor + Send + 'static {
    let group = group.clone();
    move |connection: Pin<Box<dyn Future<Output = ()> + Send>>| {
        let stop = group.token();
        group.spawn("connection", stop.run_until_cancelled_owned(connection));
    }
}

/// Listens, and waits until every listener has told an address.
async fn listen(
    swarm: &mut Swarm<Behaviour>,
    places: &Places,
    policy: address::Policy,
) -> Result<(), DhtError> {
    for address in &places.external {
        swarm.add_external_address(address.clone());
    }
    let mut silent = HashSet::new();
    for address in &places.listen {
        let listener = swarm.listen_on(address.clone());
        let listener = listener.map_err(|error| DhtError::Listen {
            address: address.to_string(),
            reason: error.to_string(),
        })?;
        silent.insert(listener);
    }
    let heard = async {
        while !silent.is_empty() {
            // Nobody is connected yet, so there is nothing else to hear.
            if let SwarmEvent::NewListenAddr {
                listener_id,
                address,
            } = swarm.select_next_some().await
            {
                if policy.allows(&address) {
                    swarm.add_external_address(address);
                }
                silent.remove(&listener_id);
            }
        }
    };
    // A host without a network may get one later.
    let _ = tokio::time::timeout(LISTEN, heard).await;
    Ok(())
}
