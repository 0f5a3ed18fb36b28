//! Dials of ours and of others, and those who wait for them.

use std::task::Waker;

use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::*;

type Opened = Receiver<Result<Stream, RequestError>>;

fn asking() -> RequestStreams {
    RequestStreams::new(REQUEST_PROTOCOL, Arc::new(|_, _| {}))
}

fn place(port: u16) -> Vec<Multiaddr> {
    vec![format!("/ip4/1.1.1.1/tcp/{port}").parse().unwrap()]
}

fn open(asking: &mut RequestStreams, peer: PeerId, addresses: Vec<Multiaddr>) -> Opened {
    let (waiting, opened) = oneshot::channel();
    asking.open(peer, addresses, waiting);
    opened
}

/// The dials that the swarm is to begin now.
fn dials(asking: &mut RequestStreams) -> Vec<ConnectionId> {
    let mut dials = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(action) = asking.poll(&mut cx) {
        let ToSwarm::Dial { opts } = action else {
            panic!("nobody is connected");
        };
        dials.push(opts.connection_id());
    }
    dials
}

fn fails(
    asking: &mut RequestStreams,
    peer: PeerId,
    connection_id: ConnectionId,
    error: &DialError,
) {
    asking.on_swarm_event(FromSwarm::DialFailure(DialFailure {
        peer_id: Some(peer),
        error,
        connection_id,
    }));
}

fn failed(mut opened: Opened) -> RequestError {
    opened.try_recv().unwrap().unwrap_err()
}

fn waits(opened: &mut Opened) -> bool {
    matches!(opened.try_recv(), Err(TryRecvError::Empty))
}

#[test]
fn the_failure_of_another_s_dial_is_not_ours_while_we_dial() {
    let (mut asking, peer) = (asking(), PeerId::random());
    let mut opened = open(&mut asking, peer, place(1));
    let ours = dials(&mut asking);
    let theirs = ConnectionId::new_unchecked(usize::MAX);
    fails(&mut asking, peer, theirs, &DialError::NoAddresses);
    assert!(waits(&mut opened));
    fails(&mut asking, peer, ours[0], &DialError::NoAddresses);
    assert_eq!(failed(opened), RequestError::NoRoute);

    // A caller without an address waits for any dial.
    let mut opened = open(&mut asking, peer, Vec::new());
    let ours = dials(&mut asking);
    let dialled = DialError::DialPeerConditionFalse(PeerCondition::DisconnectedAndNotDialing);
    fails(&mut asking, peer, ours[0], &dialled);
    assert!(waits(&mut opened));
    fails(&mut asking, peer, theirs, &DialError::NoAddresses);
    assert_eq!(failed(opened), RequestError::NoRoute);
    assert!(asking.dials.is_empty() && asking.waiting.is_empty());
}

/// The next actions of the behaviour: a dial as true, the end of all dials as false.
fn actions(asking: &mut RequestStreams) -> Vec<bool> {
    let mut actions = Vec::new();
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(action) = asking.poll(&mut cx) {
        actions.push(match action {
            ToSwarm::Dial { .. } => true,
            ToSwarm::CloseConnection { .. } => false,
            action => panic!("{action:?}"),
        });
    }
    actions
}

#[test]
fn a_dial_ends_when_the_last_caller_has_left() {
    let (mut asking, peer) = (asking(), PeerId::random());
    let first = open(&mut asking, peer, place(1));
    let second = open(&mut asking, peer, place(2));
    assert_eq!(actions(&mut asking), [true, true]);
    drop(first);
    assert!(actions(&mut asking).is_empty());
    drop(second);
    assert_eq!(actions(&mut asking), [false]);
    assert!(asking.dials.is_empty() && asking.waiting.is_empty());
    // Who comes later dials again.
    let mut third = open(&mut asking, peer, place(1));
    assert_eq!(actions(&mut asking), [true]);
    let gone = ConnectionId::new_unchecked(usize::MAX);
    fails(&mut asking, peer, gone, &DialError::Aborted);
    assert!(waits(&mut third));
}

#[test]
fn a_dial_that_another_behaviour_waits_for_goes_on() {
    let dialled = DialError::DialPeerConditionFalse(PeerCondition::DisconnectedAndNotDialing);
    let (mut asking, peer) = (asking(), PeerId::random());
    let theirs = ConnectionId::new_unchecked(usize::MAX);
    let opened = open(&mut asking, peer, place(1));
    assert_eq!(actions(&mut asking), [true]);
    fails(&mut asking, peer, theirs, &dialled);
    drop(opened);
    assert!(actions(&mut asking).is_empty());

    let (mut asking, peer) = (self::asking(), PeerId::random());
    let role = Endpoint::Dialer;
    asking
        .handle_pending_outbound_connection(theirs, Some(peer), &[], role)
        .unwrap();
    drop(open(&mut asking, peer, place(1)));
    assert_eq!(actions(&mut asking), [true]);
}

#[test]
fn an_address_that_another_caller_brings_is_dialled_as_well_and_none_twice() {
    let (mut asking, peer) = (asking(), PeerId::random());
    let mut first = open(&mut asking, peer, place(1));
    let _again = open(&mut asking, peer, place(1));
    let _nowhere = open(&mut asking, peer, Vec::new());
    let one = dials(&mut asking);
    assert_eq!(one.len(), 1);
    let second = open(&mut asking, peer, place(2));
    let two = dials(&mut asking);
    assert_eq!(two.len(), 1);
    fails(&mut asking, peer, one[0], &DialError::NoAddresses);
    assert!(waits(&mut first), "the other address may be right");
    fails(&mut asking, peer, two[0], &DialError::NoAddresses);
    assert_eq!(failed(first), RequestError::NoRoute);
    assert_eq!(failed(second), RequestError::NoRoute);
    assert!(asking.dials.is_empty() && asking.waiting.is_empty());
}
