//! Recognition of images by their first bytes, never by their declared type.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// Longest picture.
pub const MAX_BYTES: usize = 2 << 20;

/// The kinds of pictures that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

/// A picture whose kind and length were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// SHA-256 in hexadecimal: its name in the store.
    pub digest: String,
    pub kind: Kind,
    pub bytes: Bytes,
}

/// Why something is no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPicture {
    #[error("it is longer than {MAX_BYTES} bytes")]
    TooBig,
    #[error("it is neither PNG, JPEG, GIF nor WebP")]
    UnknownKind,
}

impl Kind {
    /// The kind of what begins so.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            _ => (bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"))
                .then_some(Self::Webp),
        }
    }

    /// As in `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

impl Picture {
    pub fn new(bytes: Bytes) -> Result<Self, NoPicture> {
        if bytes.len() > MAX_BYTES {
            return Err(NoPicture::TooBig);
        }
        let kind = Kind::of(&bytes).ok_or(NoPicture::UnknownKind)?;
        let digest = faster_hex::hex_string(&Sha256::digest(&bytes));
        Ok(Self {
            digest,
            kind,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_first_bytes_and_nothing_else_is_one() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Kind::Png),
            (b"\xff\xd8\xff\xe0..JFIF", Kind::Jpeg),
            (b"GIF87a....", Kind::Gif),
            (b"GIF89a....", Kind::Gif),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Kind::Webp),
        ] {
            let picture = Picture::new(Bytes::from_static(bytes)).unwrap();
            assert_eq!(picture.kind, kind);
        }
        for bytes in [
            &b""[..],
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            b"<html>",
            b"\x89PNG\n",
            b"RIFF\x10\0\0\0WAVE",
            b"GIF90a",
            b" \xff\xd8\xff",
            b"\0\0\0\x20ftypavif",
        ] {
            let found = Picture::new(Bytes::from_static(bytes));
            assert_eq!(found, Err(NoPicture::UnknownKind));
        }
    }

    #[test]
    fn a_picture_is_at_most_two_mebibytes_long() {
        let mut bytes = b"GIF89a".to_vec();
        bytes.resize(MAX_BYTES, 0);
        assert!(Picture::new(bytes.clone().into()).is_ok());
        bytes.push(0);
        assert_eq!(Picture::new(bytes.into()), Err(NoPicture::TooBig));
    }

    #[test]
    fn a_picture_is_named_by_its_digest() {
        let picture = Picture::new(Bytes::from_static(b"GIF89a")).unwrap();
        assert_eq!(picture.digest.len(), 64);
        assert_eq!(
            picture,
            Picture::new(Bytes::from_static(b"GIF89a")).unwrap()
        );
    }
}
