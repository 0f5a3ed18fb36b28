//! Refs as clients read them.

use std::{ops::Range, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use grip_types::Oid;

use crate::{pktline, upload_request::LsRefs};

use super::{Ref, RefSnapshot};

pub(crate) const AGENT: &str = concat!("agent=gripfast/", env!("CARGO_PKG_VERSION"));

const UPLOAD_PACK: &str = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow \
    deepen-since deepen-not deepen-relative no-progress include-tag multi_ack_detailed \
    allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done";

const RECEIVE_PACK: &str = "report-status report-status-v2 delete-refs side-band-64k quiet atomic \
    ofs-delta push-options object-format=sha1";

/// Bytes of a listing that are made at a time, about, and refs between two looks at how many there are.
const PIECE: usize = 16 << 10;
const REFS_AT_ONCE: usize = 64;

/// Version 2: the same bytes for every repository.
pub(super) fn capabilities_v2() -> Bytes {
    static BYTES: std::sync::OnceLock<Bytes> = std::sync::OnceLock::new();
    let made = BYTES.get_or_init(|| {
        let mut out = Vec::new();
        for line in [
            "version 2",
            AGENT,
            "ls-refs=unborn",
            "fetch=shallow wait-for-done filter",
            "server-option",
            "object-format=sha1",
        ] {
            pktline::put_parts(&mut out, &[line.as_bytes(), b"\n"]);
        }
        out.extend_from_slice(pktline::FLUSH);
        out.into()
    });
    made.clone()
}

pub(super) fn upload_pack(refs: &RefSnapshot, with_version: bool) -> Bytes {
    let mut out = opening(refs, b"# service=git-upload-pack\n");
    if with_version {
        pktline::put(&mut out, b"version 1\n");
    }
    let head = refs.head_ref();
    let symref = head.map_or(String::new(), |head| format!(" symref=HEAD:{}", head.name));
    let capabilities = format!("{UPLOAD_PACK}{symref} filter object-format=sha1 {AGENT}");
    let mut lines = Lines::new(&mut out, &capabilities);
    if let Some(head) = head {
        lines.put(&head.oid, "HEAD", "");
    }
    for Ref { name, oid, peeled } in refs.iter() {
        lines.put(oid, name.as_str(), "");
        if let Some(peeled) = peeled {
            lines.put(peeled, name.as_str(), "^{}");
        }
    }
    lines.end();
    out.freeze()
}

/// Pushing clients are shown neither HEAD nor peeled tags, nor `refs/nostr/*`: there may be many of
/// them, and a pack must not rest on objects that are staged and may go.
pub(super) fn receive_pack(refs: &RefSnapshot) -> Bytes {
    let mut out = opening(refs, b"# service=git-receive-pack\n");
    let capabilities = format!("{RECEIVE_PACK} {AGENT}");
    let mut lines = Lines::new(&mut out, &capabilities);
    for Ref { name, oid, .. } in refs.iter().filter(|r| !r.name.is_under_nostr()) {
        lines.put(oid, name.as_str(), "");
    }
    lines.end();
    out.freeze()
}

fn opening(refs: &RefSnapshot, service: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(1024 + refs.len() * 96);
    pktline::put(&mut out, service);
    out.put_slice(pktline::FLUSH);
    out
}

/// Puts the capabilities behind the first line, whichever that is.
struct Lines<'a> {
    out: &'a mut BytesMut,
    capabilities: Option<&'a str>,
}

impl<'a> Lines<'a> {
    fn new(out: &'a mut BytesMut, capabilities: &'a str) -> Self {
        Self {
            out,
            capabilities: Some(capabilities),
        }
    }

    fn put(&mut self, oid: &Oid, name: &str, suffix: &str) {
        let mut buffer = [0; 64];
        let hex = hex(oid, &mut buffer);
        let (name, suffix) = (name.as_bytes(), suffix.as_bytes());
        match self.capabilities.take() {
            Some(all) => {
                let parts = [hex, b" ", name, suffix, b"\0", all.as_bytes(), b"\n"];
                pktline::put_parts(self.out, &parts);
            }
            None => pktline::put_parts(self.out, &[hex, b" ", name, suffix, b"\n"]),
        }
    }

    /// An empty repository still has one line: browser clients need the capabilities.
    fn end(mut self) {
        if self.capabilities.is_some() {
            self.put(&Oid::ZERO, "capabilities^{}", "");
        }
        self.out.put_slice(pktline::FLUSH);
    }
}

fn hex<'a>(oid: &Oid, buffer: &'a mut [u8; 64]) -> &'a [u8] {
    let len = oid.as_bytes().len() * 2;
    let out = &mut buffer[..len];
    faster_hex::hex_encode(oid.as_bytes(), out).expect("the buffer holds the longest id");
    out
}

/// The answer to `ls-refs`, in pieces that are made as they are sent: of a long one no more is in memory.
pub struct RefListing {
    refs: Arc<RefSnapshot>,
    peel: bool,
    head: BytesMut,
    /// What is left to list, the last first.
    ranges: Vec<Range<usize>>,
    is_over: bool,
}

impl RefListing {
    pub(super) fn new(refs: Arc<RefSnapshot>, request: &LsRefs) -> Self {
        let mut prefixes = request.prefixes.iter();
        let mut head = BytesMut::new();
        if request.prefixes.is_empty() || prefixes.any(|prefix| b"HEAD".starts_with(prefix)) {
            put_head(&mut head, &refs, request);
        }
        let ranges = if request.prefixes.is_empty() {
            std::iter::once(0..refs.len()).collect()
        } else {
            let prefixes = outermost(&request.prefixes).into_iter().rev();
            let ranges = prefixes.map(|prefix| refs.below(prefix));
            ranges
                .filter(|range: &Range<usize>| range.start < range.end)
                .collect()
        };
        Self {
            refs,
            peel: request.peel,
            head,
            ranges,
            is_over: false,
        }
    }
}

impl Iterator for RefListing {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut out = std::mem::take(&mut self.head);
        while out.len() < PIECE {
            let Some(range) = self.ranges.last_mut() else {
                out.put_slice(pktline::FLUSH);
                self.is_over = true;
                break;
            };
            let end = range.end.min(range.start + REFS_AT_ONCE);
            put_refs(&mut out, &self.refs.as_slice()[range.start..end], self.peel);
            range.start = end;
            if range.start == range.end {
                self.ranges.pop();
            }
        }
        Some(out.freeze())
    }
}

/// Leaves out prefixes that others include, so that no ref is listed twice.
fn outermost(prefixes: &[Vec<u8>]) -> Vec<&[u8]> {
    let mut sorted: Vec<&[u8]> = prefixes.iter().map(|prefix| &prefix[..]).collect();
    sorted.sort_unstable();
    sorted.dedup_by(|inner, outer| inner.starts_with(outer));
    sorted
}

fn put_head(out: &mut BytesMut, refs: &RefSnapshot, request: &LsRefs) {
    let Some(target) = refs.head() else {
        return;
    };
    let symref = [b" symref-target:", target.as_str().as_bytes()].concat();
    let symref: &[u8] = if request.symrefs { &symref } else { b"" };
    match refs.head_ref() {
        Some(head) => {
            let mut buffer = [0; 64];
            pktline::put_parts(out, &[hex(&head.oid, &mut buffer), b" HEAD", symref, b"\n"]);
        }
        None if request.unborn => {
            pktline::put_parts(out, &[b"unborn HEAD", symref, b"\n"]);
        }
        None => {}
    }
}

fn put_refs(out: &mut BytesMut, refs: &[Ref], peel: bool) {
    out.reserve(refs.len() * 96);
    for Ref { name, oid, peeled } in refs {
        let (mut first, mut second) = ([0; 64], [0; 64]);
        let (oid, name) = (hex(oid, &mut first), name.as_str().as_bytes());
        match peeled.as_ref().filter(|_| peel) {
            Some(peeled) => {
                let peeled = hex(peeled, &mut second);
                pktline::put_parts(out, &[oid, b" ", name, b" peeled:", peeled, b"\n"]);
            }
            None => pktline::put_parts(out, &[oid, b" ", name, b"\n"]),
        }
    }
}

#[cfg(test)]
mod tests;
