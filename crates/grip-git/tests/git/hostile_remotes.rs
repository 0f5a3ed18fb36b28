//! Servers that lie, break off, or want to hurt.

use std::{io::Write, time::Duration};

use flate2::{Compression, write::ZlibEncoder};
use grip_git::{
    Caps, ReceiveError,
    pktline::{self, Band},
    remote::{RemoteError, Version, open_pack},
};
use grip_types::Oid;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{remote::CAPS, support::*};

/// The start of an answer that carries these bytes as its pack.
fn open_answer(pack: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    pktline::put(&mut answer, b"packfile\n");
    pktline::put_band(&mut answer, Band::Payload, pack);
    answer
}

fn whole_answer(pack: &[u8]) -> Vec<u8> {
    [&open_answer(pack), pktline::FLUSH].concat()
}

/// The error a pack is refused with; nothing of it is left.
async fn refused(answer: impl AsyncRead + Send + Unpin, caps: Caps) -> ReceiveError {
    let (sandbox, repo) = empty();
    let pack = open_pack(answer, Version::V2).await.unwrap();
    let repositories = &sandbox.repositories;
    let received = repositories
        .receive_within(&repo.identifier, pack, caps)
        .await;
    let error = received.err().expect("the pack is refused");
    sandbox.assert_quarantine_is_empty();
    assert!(sandbox.packs(&repo.identifier).is_empty());
    error
}

#[tokio::test]
async fn a_pack_without_what_was_wanted_brings_nothing() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    let answer = whole_answer(&work.pack("", &["--all"]));
    let pack = open_pack(&answer[..], Version::V2).await.unwrap();
    let received = sandbox.receive_within(&repo.identifier, pack, CAPS);
    let quarantine = received.await.unwrap();
    let wanted: Oid = "ab".repeat(20).parse().unwrap();
    let kept = quarantine.prune_to(&[wanted]).await.unwrap();
    assert!(kept.arrived.is_empty() && kept.quarantine.is_empty());
    sandbox.assert_quarantine_is_empty();
    kept.quarantine.promote().unwrap();
    assert!(sandbox.packs(&repo.identifier).is_empty());
}

#[tokio::test]
async fn a_pack_that_is_cut_short_is_refused_however_the_answer_ends() {
    let pack = Work::example().pack("", &["--all"]);
    let cut = &pack[..pack.len() - 30];
    let error = refused(&whole_answer(cut)[..], CAPS).await;
    assert!(matches!(error, ReceiveError::Truncated), "{error}");
    let error = refused(&open_answer(cut)[..], CAPS).await;
    let remote = error.remote().expect("the server broke off");
    assert!(matches!(remote, RemoteError::Truncated), "{remote}");
    let mut fatal = open_answer(cut);
    pktline::put_band(&mut fatal, Band::Fatal, b"out of memory");
    let error = refused(&fatal[..], CAPS).await;
    let remote = error.remote().expect("the server gave up");
    assert!(matches!(remote, RemoteError::Refused(said) if said == "out of memory"));
}

#[tokio::test]
async fn a_pack_with_a_wrong_checksum_is_refused() {
    let mut pack = Work::example().pack("", &["--all"]);
    *pack.last_mut().unwrap() ^= 1;
    let error = refused(&whole_answer(&pack)[..], CAPS).await;
    assert!(matches!(error, ReceiveError::Corrupt(_)), "{error}");
}

#[tokio::test]
async fn a_pack_beyond_the_cap_of_the_fetch_is_cut_off() {
    let work = Work::new();
    let noise: String = (0..200_000_u64)
        .map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    work.commit("noise", &noise);
    let answer = whole_answer(&work.pack("", &["--all"]));
    let caps = Caps {
        max_pack_bytes: 50_000,
        ..CAPS
    };
    let error = refused(&answer[..], caps).await;
    assert!(
        matches!(error, ReceiveError::TooBig { limit: 50_000 }),
        "{error}"
    );
}

#[tokio::test]
async fn progress_without_end_is_given_up() {
    let pack = Work::example().pack("", &["--all"]);
    let mut answer = open_answer(&pack[..40]);
    for _ in 0..20_000 {
        let line = format!("Counting objects: {}", "x".repeat(60));
        pktline::put_band(&mut answer, Band::Progress, line.as_bytes());
    }
    let error = refused(&answer[..], CAPS).await;
    let remote = error.remote().expect("the server talks on");
    assert!(matches!(remote, RemoteError::Endless), "{remote}");
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_is_given_up() {
    let pack = Work::example().pack("", &["--all"]);
    let (stream, _open) = tokio::io::duplex(64);
    let answer = std::io::Cursor::new(open_answer(&pack[..40])).chain(stream);
    let caps = Caps {
        stall: Duration::from_millis(50),
        ..CAPS
    };
    let error = refused(answer, caps).await;
    assert!(matches!(error, ReceiveError::Stalled(_)), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_small_pack_that_inflates_hugely_costs_us_no_memory() {
    const INFLATED: u64 = 512 << 20;
    let (sandbox, repo) = empty();
    let work = Work::new();
    let file = std::fs::File::create(work.dir.path().join("bomb")).unwrap();
    file.set_len(INFLATED).unwrap();
    work.git(&["-c", "core.bigFileThreshold=1m", "add", "bomb"]);
    work.git(&["commit", "--quiet", "--message=bomb"]);
    let answer = whole_answer(&work.pack("", &["--all"]));
    assert!(answer.len() < 4 << 20, "{}", answer.len());
    let before = peak_kib();
    let pack = open_pack(&answer[..], Version::V2).await.unwrap();
    let received = sandbox.receive_within(&repo.identifier, pack, CAPS);
    let quarantine = received.await.unwrap();
    let kept = quarantine.prune_to(&[work.oid("HEAD")]).await.unwrap();
    assert_eq!(kept.arrived, [work.oid("HEAD")]);
    let on_disk = kept.quarantine.promote().unwrap().pack_bytes;
    assert!(on_disk < 4 << 20, "{on_disk}");
    let grown = peak_kib() - before;
    assert!(grown < 32 << 10, "{grown} KiB");
}

/// A pack of some kilobytes: a blob of zeros, and a delta that repeats it to three gigabytes.
#[cfg(target_os = "linux")]
fn delta_bomb() -> Vec<u8> {
    const BASE: usize = 0xff_ffff;
    const TIMES: usize = 190;
    let deflated = |data: &[u8]| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    };
    let in_sevens = |mut number: usize, mut bytes: Vec<u8>| {
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let header = |kind: u8, size: usize| {
        let first = (kind << 4) | (size as u8 & 0xf) | 0x80;
        in_sevens(size >> 4, vec![first])
    };
    let copy_all = [0xf0, 0xff, 0xff, 0xff];
    let mut delta = in_sevens(BASE * TIMES, in_sevens(BASE, Vec::new()));
    delta.extend(copy_all.repeat(TIMES));
    let base = [header(3, BASE), deflated(&vec![0; BASE])].concat();
    let back = base.len();
    assert!((128..16_512).contains(&back));
    let back = [((back - 128) >> 7) as u8 | 0x80, (back & 0x7f) as u8];
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
    pack.extend(base);
    pack.extend(header(6, delta.len()));
    pack.extend(back);
    pack.extend(deflated(&delta));
    let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
    hasher.update(&pack);
    pack.extend(hasher.try_finalize().unwrap().as_bytes());
    pack
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_delta_that_stands_for_gigabytes_is_refused() {
    let bomb = delta_bomb();
    assert!(bomb.len() < 32 << 10, "{}", bomb.len());
    let error = refused(&whole_answer(&bomb)[..], CAPS).await;
    assert!(matches!(error, ReceiveError::Bomb), "{error}");
}
