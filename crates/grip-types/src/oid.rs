//! Git object ids.

use std::fmt;

/// The hash a repository names its objects with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    /// Bytes of an id of this format.
    pub const fn len_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// The name git uses in `object-format=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }
}

/// A git object id: 40 or 64 lower-case hex digits in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Oid {
    format: ObjectFormat,
    bytes: [u8; 32],
}

/// Why a text is no object id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object id is 40 or 64 lower-case hex digits")]
pub struct InvalidOid;

impl Oid {
    /// What git writes for "no object" in a ref update of a SHA-1 repository.
    pub const ZERO: Self = Self {
        format: ObjectFormat::Sha1,
        bytes: [0; 32],
    };

    /// Reads 40 or 64 lower-case hex digits.
    pub fn parse(text: &str) -> Result<Self, InvalidOid> {
        Self::from_hex(text.as_bytes())
    }

    pub fn from_hex(hex: &[u8]) -> Result<Self, InvalidOid> {
        let format = match hex.len() {
            40 => ObjectFormat::Sha1,
            64 => ObjectFormat::Sha256,
            _ => return Err(InvalidOid),
        };
        if hex.iter().any(u8::is_ascii_uppercase) {
            return Err(InvalidOid);
        }
        let mut bytes = [0; 32];
        faster_hex::hex_decode(hex, &mut bytes[..format.len_bytes()]).map_err(|_| InvalidOid)?;
        Ok(Self { format, bytes })
    }

    /// Takes the raw bytes of an id: 20 or 32 of them.
    pub fn from_bytes(raw: &[u8]) -> Result<Self, InvalidOid> {
        let format = match raw.len() {
            20 => ObjectFormat::Sha1,
            32 => ObjectFormat::Sha256,
            _ => return Err(InvalidOid),
        };
        let mut bytes = [0; 32];
        bytes[..raw.len()].copy_from_slice(raw);
        Ok(Self { format, bytes })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.format.len_bytes()]
    }

    pub const fn format(&self) -> ObjectFormat {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.bytes == [0; 32]
    }

    /// The text form, without an allocation of the caller's choosing.
    pub fn to_hex(&self) -> String {
        faster_hex::hex_string(self.as_bytes())
    }

    /// The first ten digits, for messages to people.
    pub fn short(&self) -> String {
        faster_hex::hex_string(&self.bytes[..5])
    }
}

text_form!(Oid, InvalidOid);

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_hex())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn upper_case_and_odd_lengths_are_refused() {
        assert_eq!("AB".repeat(20).parse::<Oid>(), Err(InvalidOid));
        assert_eq!("ab".repeat(19).parse::<Oid>(), Err(InvalidOid));
        assert_eq!("zz".repeat(20).parse::<Oid>(), Err(InvalidOid));
        assert_eq!("".parse::<Oid>(), Err(InvalidOid));
    }

    #[test]
    fn both_formats_are_read_and_told_apart() {
        let sha1: Oid = "ab".repeat(20).parse().unwrap();
        let sha256: Oid = "ab".repeat(32).parse().unwrap();
        assert_eq!(sha1.format(), ObjectFormat::Sha1);
        assert_eq!(sha256.format(), ObjectFormat::Sha256);
        assert_ne!(sha1, sha256);
        assert!("00".repeat(20).parse::<Oid>().unwrap().is_zero());
    }

    proptest! {
        #[test]
        fn text_and_bytes_round_trip(raw in prop_oneof![
            proptest::collection::vec(any::<u8>(), 20),
            proptest::collection::vec(any::<u8>(), 32),
        ]) {
            let oid = Oid::from_bytes(&raw).unwrap();
            prop_assert_eq!(oid.to_string().parse::<Oid>().unwrap(), oid);
            prop_assert_eq!(oid.as_bytes(), &raw[..]);
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,80}") {
            let _ = text.parse::<Oid>();
        }
    }
}
