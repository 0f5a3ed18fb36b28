//! Start of the node in the network.

use std::{collections::HashSet, future::Future, pin::Pin, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use libp2p::{
    Multiaddr, PeerId, Swarm, futures::StreamExt as _, identity::Keypair, swarm::SwarmEvent,
};
use tokio::sync::{Semaphore, mpsc};

use super::{
    Kademlia, Options, address,
    behaviour::{self, Behaviour},
    own_keys::OwnKeys,
    publications::Publications,
    record_validation::ValidationTask,
    request_handler::{PeerPermits, RequestHandler},
    request_streams::{REQUEST_PROTOCOL, RequestStreams},
    stats::Stats,
    swarm_task::{Queues, StaleStatus, SwarmTask},
};
use crate::{DhtError, LocalRecords, Reachability, RecordValidator};

/// Commands of callers that wait for the swarm task; beyond, a request is refused.
const COMMANDS: usize = 256;

/// Records of others that wait for validation, in all and from one peer; beyond, they are dropped.
const OFFERS: usize = 256;
const OFFERS_PER_PEER: usize = 64;

/// Commands from the validation to the swarm task; beyond, the validation waits.
const STORE_COMMANDS: usize = 16;

/// How long to wait for the addresses of the listeners.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Enters the network and returns as soon as it listens; peers connect afterwards.
///
/// All tasks are in a child of `group`, and end when it is shut down.
pub async fn start(
    options: Options,
    local: Arc<dyn LocalRecords>,
    validator: Arc<dyn RecordValidator>,
    group: &TaskGroup,
) -> Result<Kademlia, DhtError> {
    let addresses = OwnAddresses::read(&options)?;
    let keys = keys(&options)?;
    let own = keys.public().to_peer_id();
    let name = address::name(&own).ok_or_else(|| behaviour::setup("a peer has no name"))?;
    let stats = Arc::new(Stats::new(name.clone()));
    let group = group.child("dht");

    let (query_sender, store_queries) = mpsc::channel(options.max_inbound_requests.max(1));
    let handler = Arc::new(RequestHandler::new(
        group.clone(),
        local,
        query_sender,
        Arc::clone(&stats),
        options.inbound_request_timeout,
        PeerPermits::new(
            options.max_inbound_requests,
            options.max_inbound_requests_per_peer,
        ),
    ));
    let policy = options.policy();
    let on_stream = Arc::new(move |peer, stream| handler.receive(peer, stream));
    let request_streams = RequestStreams::new(REQUEST_PROTOCOL, on_stream);
    let connected = request_streams.connected();
    let behaviour = Behaviour::new(
        &options,
        &keys,
        &name,
        &addresses.bootstrap,
        &stats,
        request_streams,
    )?;
    let named = addresses
        .bootstrap
        .iter()
        .map(|(_, address)| address.clone());
    let executor = executor(&group);
    let mut swarm = behaviour::swarm(
        &options,
        &keys,
        named.collect(),
        &stats,
        behaviour,
        executor,
    )?;
    listen(&mut swarm, &addresses, policy).await?;

    let (command_sender, commands) = mpsc::channel(COMMANDS);
    let (offer_sender, offers) = mpsc::channel(OFFERS);
    let (store_command_sender, store_commands) = mpsc::channel(STORE_COMMANDS);
    let (update_sender, own_updates) = mpsc::channel(options.max_publications.max(1));
    let validation = ValidationTask {
        validator,
        group: group.clone(),
        stats: Arc::clone(&stats),
        own_updates,
        offers,
        store_commands: store_command_sender,
    };
    let mut swarm_task = SwarmTask {
        swarm,
        own,
        policy,
        network: behaviour::network(&options)?,
        bootstrap: addresses.bootstrap,
        external: addresses.external,
        bootstrap_ticks: options.bootstrap_interval.as_secs().max(1),
        stats: Arc::clone(&stats),
        offers: offer_sender,
        offer_permits: PeerPermits::new(OFFERS, OFFERS_PER_PEER),
        record_ttl: options.record_ttl,
        own_keys: OwnKeys::new(options.max_published),
        publications: Publications::default(),
        ticks: 0,
        reachability: Reachability::Unknown,
        stale: StaleStatus {
            addresses: true,
            ..StaleStatus::default()
        },
    };
    swarm_task.update_status();
    let queues = Queues {
        commands,
        store_queries,
        store_commands,
    };
    let stop = group.token();
    group.spawn("swarm", swarm_task.run(queues, stop.clone()));
    group.spawn("judging", validation.run());
    Ok(Kademlia {
        own,
        policy,
        outbound_request_timeout: options.outbound_request_timeout,
        stats,
        connected,
        commands: command_sender,
        own_updates: update_sender,
        request_permits: PeerPermits::new(
            options.max_outbound_requests,
            options.max_outbound_requests_per_peer,
        ),
        publication_permits: Arc::new(Semaphore::new(options.max_publications.max(1))),
        stop,
    })
}

fn keys(options: &Options) -> Result<Keypair, DhtError> {
    Keypair::ed25519_from_bytes(options.seed).map_err(|error| DhtError::InvalidKey {
        reason: error.to_string(),
    })
}

/// The addresses of the settings, parsed.
struct OwnAddresses {
    listen: Vec<Multiaddr>,
    external: Vec<Multiaddr>,
    bootstrap: Vec<(PeerId, Multiaddr)>,
}

impl OwnAddresses {
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

/// Listens, and waits until every listener has an address.
async fn listen(
    swarm: &mut Swarm<Behaviour>,
    addresses: &OwnAddresses,
    policy: address::Policy,
) -> Result<(), DhtError> {
    for address in &addresses.external {
        swarm.add_external_address(address.clone());
    }
    let mut without_address = HashSet::new();
    for address in &addresses.listen {
        let listener = swarm.listen_on(address.clone());
        let listener = listener.map_err(|error| DhtError::Listen {
            address: address.to_string(),
            reason: error.to_string(),
        })?;
        without_address.insert(listener);
    }
    let listening = async {
        while !without_address.is_empty() {
            // No peer is connected yet, so there are no other events.
            if let SwarmEvent::NewListenAddr {
                listener_id,
                address,
            } = swarm.select_next_some().await
            {
                if policy.allows(&address) {
                    swarm.add_external_address(address);
                }
                without_address.remove(&listener_id);
            }
        }
    };
    // A host without a network may get one later.
    let _ = tokio::time::timeout(LISTEN_TIMEOUT, listening).await;
    Ok(())
}
