//! Signatures of deliveries: HMAC-SHA256 of the body, compared in constant time.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// How the header begins.
const SCHEME: &str = "sha256=";
const DIGEST_BYTES: usize = 32;

/// Why a delivery is not known to be GitHub's. All of them are answered with 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("the delivery is not signed: set a secret in the settings of the webhook")]
    Missing,
    #[error("the signature is not \"sha256=\" and 64 hexadecimal digits")]
    Malformed,
    #[error("the signature is not that of this body with any secret that is set")]
    Wrong,
}

/// Why there are no secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSecret {
    #[error("a webhook needs a secret, and an empty one is none")]
    Empty,
}

/// The secrets that a delivery may be signed with: several while one takes the place of another.
/// Nothing of them is ever printed.
#[derive(Clone)]
pub struct Secrets {
    keys: Vec<Hmac<Sha256>>,
}

impl Secrets {
    /// At least one; white space around each does not belong to it.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Result<Self, InvalidSecret> {
        let mut keys = Vec::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            if secret.is_empty() {
                return Err(InvalidSecret::Empty);
            }
            let key = Hmac::new_from_slice(secret.as_bytes());
            keys.push(key.expect("because a key of any length will do"));
        }
        if keys.is_empty() {
            Err(InvalidSecret::Empty)
        } else {
            Ok(Self { keys })
        }
    }

    /// Checks the signature of a body as it came, in a time that depends on its length and the
    /// number of secrets only.
    pub fn check(&self, signature: Option<&[u8]>, body: &[u8]) -> Result<(), Refused> {
        let signature = signature.filter(|text| !text.is_empty());
        let claimed = read(signature.ok_or(Refused::Missing)?).ok_or(Refused::Malformed)?;
        let matches = |key: &Hmac<Sha256>| {
            let signed = key.clone().chain_update(body);
            signed.verify_slice(&claimed).is_ok()
        };
        // All of them, whichever it is.
        let any = self
            .keys
            .iter()
            .map(matches)
            .fold(false, |any, one| any | one);
        if any { Ok(()) } else { Err(Refused::Wrong) }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.keys.len())
    }
}

fn read(text: &[u8]) -> Option<[u8; DIGEST_BYTES]> {
    let digits = text.strip_prefix(SCHEME.as_bytes())?;
    let mut digest = [0; DIGEST_BYTES];
    let is_read =
        digits.len() == 2 * DIGEST_BYTES && faster_hex::hex_decode(digits, &mut digest).is_ok();
    is_read.then_some(digest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of GitHub's documentation.
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const SIGNATURE: &str =
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn check(secrets: &[&str], signature: &str, body: &[u8]) -> Result<(), Refused> {
        let secrets = Secrets::new(secrets).unwrap();
        secrets.check(Some(signature.as_bytes()), body)
    }

    #[test]
    fn the_example_of_the_documentation_is_accepted() {
        assert_eq!(check(&[SECRET], SIGNATURE, BODY), Ok(()));
        assert_eq!(check(&[&format!(" {SECRET}\n")], SIGNATURE, BODY), Ok(()));
        let upper = format!("sha256={}", SIGNATURE[7..].to_uppercase());
        assert_eq!(check(&[SECRET], &upper, BODY), Ok(()));
    }

    #[test]
    fn any_of_several_secrets_will_do() {
        assert_eq!(check(&["old", SECRET], SIGNATURE, BODY), Ok(()));
        assert_eq!(check(&[SECRET, "new"], SIGNATURE, BODY), Ok(()));
        assert_eq!(check(&["old", "new"], SIGNATURE, BODY), Err(Refused::Wrong));
    }

    #[test]
    fn without_a_signature_or_with_another_nothing_is_accepted() {
        let secrets = Secrets::new([SECRET]).unwrap();
        assert_eq!(secrets.check(None, BODY), Err(Refused::Missing));
        assert_eq!(secrets.check(Some(b""), BODY), Err(Refused::Missing));
        for malformed in [
            "sha1=757107ea0eb2509fc211221cce984b8a37570b6d",
            "sha256=",
            &SIGNATURE[7..],
            &SIGNATURE[..70],
            &format!("{SIGNATURE}0"),
            &format!("{}x", &SIGNATURE[..70]),
            &format!("{}ü", &SIGNATURE[..69]),
            &format!("{} ", &SIGNATURE[..70]),
            &format!("{}+7", &SIGNATURE[..69]),
        ] {
            let found = check(&[SECRET], malformed, BODY);
            assert_eq!(found, Err(Refused::Malformed), "{malformed}");
        }
        let body = b"Hello, World! ";
        assert_eq!(check(&[SECRET], SIGNATURE, body), Err(Refused::Wrong));
    }

    #[test]
    fn there_is_always_a_secret_and_none_is_printed() {
        assert_eq!(Secrets::new([""; 0]).unwrap_err(), InvalidSecret::Empty);
        assert_eq!(
            Secrets::new(["a", " \n"]).unwrap_err(),
            InvalidSecret::Empty
        );
        let text = format!("{:?}", Secrets::new([SECRET]).unwrap());
        assert_eq!(text, "Secrets(1)");
    }

    proptest! {
        #[test]
        fn no_other_signature_is_accepted(byte in 0_usize..32, bit in 0_u8..8, body: Vec<u8>) {
            let key = Hmac::<Sha256>::new_from_slice(b"k").unwrap().chain_update(&body);
            let mut digest = key.finalize().into_bytes();
            let text = |digest: &[u8]| format!("sha256={}", faster_hex::hex_string(digest));
            prop_assert_eq!(check(&["k"], &text(&digest), &body), Ok(()));
            digest[byte] ^= 1 << bit;
            prop_assert_eq!(check(&["k"], &text(&digest), &body), Err(Refused::Wrong));
        }

        #[test]
        fn whatever_is_sent_as_a_signature_is_answered(signature: Vec<u8>) {
            let secrets = Secrets::new(["k"]).unwrap();
            prop_assert!(secrets.check(Some(&signature), b"").is_err());
        }
    }
}
