//! Behaviours and transport of the swarm.

use std::{collections::HashSet, io, num::NonZeroUsize, sync::Arc};

use libp2p::{
    Multiaddr, PeerId, Swarm, Transport as _,
    core::{muxing::StreamMuxerBox, transport::Boxed, upgrade::Version},
    identify,
    identity::Keypair,
    kad, noise,
    swarm::{NetworkBehaviour, StreamProtocol},
    tcp, yamux,
};

use super::{
    Options,
    address::Policy,
    address_filter::AddressFilter,
    connection_limits::ConnectionLimits,
    dial_filter::DialFilter,
    host_names::HostNames,
    record_store::{Bounds, RecordStore},
    request_streams::RequestStreams,
    stats::Stats,
};
use crate::{DhtError, PeerName, limits};

/// Streams that one connection may have open, in both directions together; who opens more loses
/// the connection. Two nodes that request and store as fast as they may have a hundred.
const STREAMS: usize = 128;

/// Streams of one connection whose protocol is not agreed upon yet; who opens more loses those.
const NEGOTIATING: usize = 64;

#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
pub(super) struct Behaviour {
    pub connection_limits: ConnectionLimits,
    pub request_streams: RequestStreams,
    pub identify: identify::Behaviour,
    pub kad: AddressFilter<kad::Behaviour<RecordStore>>,
}

pub(super) fn setup(error: impl std::fmt::Display) -> DhtError {
    DhtError::Setup {
        reason: error.to_string(),
    }
}

impl Behaviour {
    pub(super) fn new(
        options: &Options,
        keys: &Keypair,
        name: &PeerName,
        bootstrap: &[(PeerId, Multiaddr)],
        stats: &Arc<Stats>,
        request_streams: RequestStreams,
    ) -> Result<Self, DhtError> {
        let own = keys.public().to_peer_id();
        let network = network(options)?;
        // The interval is that of asking again; its pushes are off, its cache is empty, and its
        // messages are bounded by itself.
        let identify = identify::Config::new(network.to_string(), keys.public())
            .with_agent_version("gripfast".to_owned())
            .with_push_listen_addr_updates(false)
            .with_hide_listen_addrs(true)
            .with_cache_size(0);
        Ok(Self {
            connection_limits: ConnectionLimits::new(options, bootstrap, Arc::clone(stats)),
            request_streams,
            identify: identify::Behaviour::new(identify),
            kad: AddressFilter::new(
                kademlia(options, own, name, network),
                options.policy(),
                bootstrap.to_vec(),
                Arc::clone(stats),
            ),
        })
    }
}

pub(super) fn network(options: &Options) -> Result<StreamProtocol, DhtError> {
    StreamProtocol::try_from_owned(options.network.clone()).map_err(setup)
}

fn kademlia(
    options: &Options,
    own: PeerId,
    name: &PeerName,
    network: StreamProtocol,
) -> kad::Behaviour<RecordStore> {
    let bounds = Bounds {
        records: options.max_records,
        bytes: options.max_record_bytes,
        providers: options.max_providers,
    };
    let replication = NonZeroUsize::new(limits::PEERS).expect("because twenty is not zero");
    let mut config = kad::Config::new(network);
    config
        .set_replication_factor(replication)
        .set_max_packet_size(limits::RECORD_BYTES + 32 * 1024)
        .set_record_filtering(kad::StoreInserts::FilterBoth)
        .set_kbucket_inserts(kad::BucketInserts::Manual)
        .set_caching(kad::Caching::Disabled)
        .set_record_ttl(Some(options.record_ttl))
        .set_provider_record_ttl(Some(options.record_ttl))
        // The swarm task does it, more often while few peers are known.
        .set_periodic_bootstrap_interval(None)
        // The publisher republishes: the job of the library keeps every key that it has seen since
        // its last run, without a bound.
        .set_replication_interval(None)
        .set_publication_interval(None)
        .set_provider_publication_interval(None);
    let store = RecordStore::new(own, name.clone(), bounds);
    let mut kad = kad::Behaviour::with_config(own, store, config);
    kad.set_mode(Some(kad::Mode::Server));
    kad
}

/// Wires transport, behaviour and tasks together. Every connection is a task of `spawn`.
pub(super) fn swarm(
    options: &Options,
    keys: &Keypair,
    named: HashSet<Multiaddr>,
    stats: &Arc<Stats>,
    behaviour: Behaviour,
    executor: impl libp2p::swarm::Executor + Send + 'static,
) -> Result<Swarm<Behaviour>, DhtError> {
    let transport = transport(options, keys, named, stats)?;
    let config = libp2p::swarm::Config::with_executor(executor)
        .with_idle_connection_timeout(options.idle_timeout)
        .with_max_negotiating_inbound_streams(NEGOTIATING);
    let own = keys.public().to_peer_id();
    Ok(Swarm::new(transport, behaviour, own, config))
}

/// TCP, noise and yamux behind the dial filter.
///
/// Host names are resolved for addresses of the operator only, and within a LAN the result is
/// filtered once more.
pub(super) fn transport(
    options: &Options,
    keys: &Keypair,
    named: HashSet<Multiaddr>,
    stats: &Arc<Stats>,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, DhtError> {
    let policy = options.policy();
    let below = match policy {
        Policy::Lan => Policy::Lan,
        Policy::Global | Policy::Any => Policy::Any,
    };
    let tcp = tcp::tokio::Transport::new(tcp::Config::new());
    let tcp = DialFilter::new(tcp, below, named.clone(), Arc::clone(stats));
    let tcp = HostNames::new(tcp, options.connect_timeout);
    let transport = DialFilter::new(tcp, policy, named, Arc::clone(stats));
    let mut streams = yamux::Config::default();
    streams.set_max_num_streams(STREAMS);
    let transport = transport
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(keys).map_err(setup)?)
        .multiplex(streams)
        .timeout(options.connect_timeout)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
        .map_err(io::Error::other);
    Ok(transport.boxed())
}
