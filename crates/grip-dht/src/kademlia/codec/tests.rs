//! Bytes of strangers: read or refused, and never costlier than their length.

use libp2p::futures::io::Cursor;
use proptest::{collection::vec, prelude::*};

use super::*;

fn id(seed: u8) -> PeerId {
    let keys = libp2p::identity::Keypair::ed25519_from_bytes([seed; 32]).unwrap();
    keys.public().to_peer_id()
}

fn found() -> WireResponse {
    WireResponse::Found(Found {
        value: Some(Bytes::from("value")),
        providers: vec![(id(1), vec!["/ip4/192.0.2.1/tcp/4001".parse().unwrap()])],
        closer: vec![
            (id(2), Vec::new()),
            (id(3), vec!["/ip6/2001:db8::1/tcp/1".parse().unwrap(); 8]),
        ],
    })
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    [&length[..], body].concat()
}

async fn read(bytes: Vec<u8>) -> Result<WireResponse, CodecError> {
    read_response(&mut Cursor::new(bytes)).await
}

#[tokio::test]
async fn a_response_is_read_as_it_was_written() {
    for response in [
        WireResponse::Busy,
        WireResponse::Found(Found::default()),
        found(),
    ] {
        let mut wire = Vec::new();
        write_response(&mut wire, &response, Duration::from_secs(1))
            .await
            .unwrap();
        assert_eq!(read(wire).await.unwrap(), response);
    }
}

#[tokio::test]
async fn a_request_is_read_as_it_was_written() {
    let key = RecordKey::new([7; 64]).unwrap();
    let mut wire = Vec::new();
    write_request(&mut wire, &key).await.unwrap();
    assert_eq!(read_request(&mut Cursor::new(wire)).await.unwrap(), key);
    for wrong in [vec![0], vec![65; 66]] {
        let read = read_request(&mut Cursor::new(wrong)).await;
        assert!(matches!(read, Err(CodecError::Malformed)));
    }
}

#[tokio::test]
async fn a_response_cut_anywhere_is_refused() {
    let whole = framed(&encode(&found()));
    for end in 0..whole.len() {
        let cut = read(whole[..end].to_vec()).await;
        assert!(
            matches!(cut, Err(CodecError::Io(_))),
            "cut at {end}: {cut:?}"
        );
    }
    let body = encode(&found());
    for end in 0..body.len() {
        let cut = decode(Bytes::copy_from_slice(&body[..end]));
        assert!(
            matches!(cut, Err(CodecError::Malformed)),
            "cut at {end}: {cut:?}"
        );
    }
}

#[tokio::test]
async fn what_goes_on_after_its_end_is_refused() {
    let mut body = encode(&found());
    body.push(0);
    assert!(matches!(
        read(framed(&body)).await,
        Err(CodecError::Malformed)
    ));
    let mut wire = framed(&encode(&found()));
    wire.push(0);
    assert!(matches!(read(wire).await, Err(CodecError::Malformed)));
}

#[tokio::test]
async fn a_length_that_is_too_long_is_refused_before_anything_is_read() {
    let mut wire = ((BODY_BYTES + 1) as u32).to_be_bytes().to_vec();
    wire.extend_from_slice(&[0; 8]);
    assert!(matches!(read(wire).await, Err(CodecError::TooLarge)));
    let long_value = [&[FOUND, 1][..], &u32::MAX.to_be_bytes()].concat();
    assert!(matches!(
        decode(long_value.into()),
        Err(CodecError::TooLarge)
    ));
    let many_peers = Bytes::from_static(&[FOUND, 0, 21]);
    assert!(matches!(decode(many_peers), Err(CodecError::TooLarge)));
}

#[test]
fn the_longest_response_that_can_be_written_is_within_the_bound() {
    let address: Multiaddr = "/ip4/192.0.2.1/tcp/4001".parse().unwrap();
    let peers = vec![(id(1), vec![address; 30]); 30];
    let response = WireResponse::Found(Found {
        value: Some(vec![0; limits::VALUE_BYTES].into()),
        providers: peers.clone(),
        closer: peers,
    });
    let body = encode(&response);
    assert!(body.len() <= BODY_BYTES);
    let WireResponse::Found(found) = decode(body.into()).unwrap() else {
        panic!("not busy");
    };
    assert_eq!(found.closer.len(), limits::PEERS);
    assert_eq!(found.closer[0].1.len(), limits::ADDRESSES);
}

fn peer_addresses() -> impl Strategy<Value = PeerAddresses> {
    let address = (any::<[u8; 4]>(), any::<u16>()).prop_map(|(ip, port)| {
        let ip = std::net::Ipv4Addr::from(ip);
        format!("/ip4/{ip}/tcp/{port}").parse().unwrap()
    });
    (any::<u8>().prop_map(id), vec(address, 0..=8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused(body in vec(any::<u8>(), 0..400)) {
        if let Ok(response) = decode(Bytes::from(body.clone())) {
            // What is understood is understood in one way only.
            prop_assert_eq!(encode(&response), body);
        }
    }

    #[test]
    fn bytes_that_begin_well_are_read_or_refused(
        value in vec(any::<u8>(), 0..32),
        tail in vec(prop_oneof![0u8..24, any::<u8>()], 0..400),
    ) {
        let mut body = vec![FOUND, 1];
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(&value);
        body.extend_from_slice(&tail);
        if let Ok(response) = decode(Bytes::from(body.clone())) {
            prop_assert_eq!(encode(&response), body);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_response_survives_the_wire(
        value in proptest::option::of(vec(any::<u8>(), 0..2000)),
        providers in vec(peer_addresses(), 0..=20),
        closer in vec(peer_addresses(), 0..=20),
        flip in any::<(usize, u8)>(),
    ) {
        let found = Found { value: value.map(Bytes::from), providers, closer };
        let response = WireResponse::Found(found);
        let mut body = encode(&response);
        prop_assert_eq!(decode(Bytes::from(body.clone())).unwrap(), response);
        let at = flip.0 % body.len();
        body[at] ^= flip.1;
        let _ = decode(Bytes::from(body));
    }
}
