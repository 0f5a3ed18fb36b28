//! Bodies of requests to a remote server.
//!
//! Bounds: [`MAX_WANTS`] and [`MAX_HAVES`] object ids a request; those beyond are left out, so the
//! caller puts first what matters most. Every id is sent once. All ids are of the format of the
//! first want; others are left out too.

use bytes::{BufMut, Bytes, BytesMut};
use grip_types::{Identifier, ObjectFormat, Oid};

use crate::{
    pktline,
    refs::AGENT,
    repositories::{RepoError, Repositories},
};

use super::Advertisement;

/// Most objects asked for in one request.
pub const MAX_WANTS: usize = 2000;
/// Most objects named as being here in one request.
pub const MAX_HAVES: usize = 256;

impl Repositories {
    /// As [`fetch_v2`], with what is here for an identifier, which need not be sent. Blocking.
    pub fn fetch_v2(&self, identifier: &Identifier, wants: &[Oid]) -> Result<Bytes, RepoError> {
        Ok(fetch_v2(wants, &self.known_tips(identifier, MAX_HAVES)?))
    }

    /// As [`Self::fetch_v2`], in version 0 or 1.
    pub fn fetch_v0(
        &self,
        identifier: &Identifier,
        advertised: &Advertisement,
        wants: &[Oid],
    ) -> Result<Bytes, RepoError> {
        let haves = self.known_tips(identifier, MAX_HAVES)?;
        Ok(fetch_v0(advertised, wants, &haves))
    }
}

/// The body of a version 2 `fetch`: all in one request, answered with a pack or a refusal.
///
/// To be sent with `Git-Protocol: version=2`. Tags that point at the wanted objects are not asked
/// for. Without wants it is no request that a server would answer.
pub fn fetch_v2(wants: &[Oid], haves: &[Oid]) -> Bytes {
    let oids = Oids::new(wants, haves);
    let mut out = command("fetch", oids.format);
    for argument in ["thin-pack", "no-progress", "ofs-delta"] {
        line(&mut out, &[argument]);
    }
    for want in &oids.wants {
        line(&mut out, &["want ", &want.to_hex()]);
    }
    for have in &oids.haves {
        line(&mut out, &["have ", &have.to_hex()]);
    }
    line(&mut out, &["done"]);
    out.put_slice(pktline::FLUSH);
    out.freeze()
}

/// The body of a version 2 `fetch` of one commit with all its files and without its history.
pub fn fetch_snapshot_v2(commit: &Oid) -> Bytes {
    let mut out = command("fetch", commit.format());
    for argument in ["no-progress", "ofs-delta", "deepen 1"] {
        line(&mut out, &[argument]);
    }
    line(&mut out, &["want ", &commit.to_hex()]);
    line(&mut out, &["done"]);
    out.put_slice(pktline::FLUSH);
    out.freeze()
}

/// The body of a version 2 `ls-refs`: every ref, tags with what they point at.
pub fn ls_refs_v2() -> Bytes {
    let mut out = command("ls-refs", ObjectFormat::Sha1);
    line(&mut out, &["peel"]);
    out.put_slice(pktline::FLUSH);
    out.freeze()
}

/// The same for refs whose names begin with one of `prefixes` alone.
pub fn ls_refs_v2_below<'a>(prefixes: impl IntoIterator<Item = &'a str>) -> Bytes {
    let mut out = command("ls-refs", ObjectFormat::Sha1);
    for prefix in prefixes {
        line(&mut out, &["ref-prefix ", prefix]);
    }
    out.put_slice(pktline::FLUSH);
    out.freeze()
}

fn command(name: &str, format: ObjectFormat) -> BytesMut {
    let mut out = BytesMut::with_capacity(4 << 10);
    line(&mut out, &["command=", name]);
    line(&mut out, &[AGENT]);
    line(&mut out, &["object-format=", format.name()]);
    out.put_slice(pktline::DELIM);
    out
}

/// The body of a fetch in version 0 or 1, with those of our capabilities that the server has.
pub fn fetch_v0(advertised: &Advertisement, wants: &[Oid], haves: &[Oid]) -> Bytes {
    let oids = Oids::new(wants, haves);
    let mut out = BytesMut::with_capacity(4 << 10);
    let mut capabilities = capabilities_v0(advertised, oids.format);
    for want in &oids.wants {
        line(&mut out, &["want ", &want.to_hex(), &capabilities]);
        capabilities.clear();
    }
    out.put_slice(pktline::FLUSH);
    if oids.wants.is_empty() {
        return out.freeze();
    }
    for have in &oids.haves {
        line(&mut out, &["have ", &have.to_hex()]);
    }
    line(&mut out, &["done"]);
    out.freeze()
}

fn capabilities_v0(advertised: &Advertisement, format: ObjectFormat) -> String {
    let side_band = ["side-band-64k", "side-band"]
        .into_iter()
        .find(|name| advertised.has(name));
    let others = ["thin-pack", "no-progress", "ofs-delta"];
    let others = others.into_iter().filter(|name| advertised.has(name));
    let mut text: String = side_band
        .into_iter()
        .chain(others)
        .fold(String::new(), |text, capability| text + " " + capability);
    if advertised.has("object-format") {
        text += " object-format=";
        text += format.name();
    }
    if advertised.has("agent") {
        text += " ";
        text += AGENT;
    }
    text
}

fn line(out: &mut BytesMut, parts: &[&str]) {
    pktline::put(out, (parts.concat() + "\n").as_bytes());
}

/// What goes into one request.
struct Oids {
    format: ObjectFormat,
    wants: Vec<Oid>,
    haves: Vec<Oid>,
}

impl Oids {
    fn new(wants: &[Oid], haves: &[Oid]) -> Self {
        let format = wants.first().map_or(ObjectFormat::Sha1, Oid::format);
        let mut seen = std::collections::HashSet::new();
        let mut take = |oids: &[Oid], most| {
            let oids = oids.iter().filter(|oid| oid.format() == format);
            let new = oids.filter(|oid| seen.insert(**oid));
            new.take(most).copied().collect()
        };
        Self {
            format,
            wants: take(wants, MAX_WANTS),
            haves: take(haves, MAX_HAVES),
        }
    }
}
