//! The operator's rights: those of a local process that can read the admin token.
//! Orders to the resolver may also come from elsewhere, signed with the operator's key.
//!
//! Invariant: what changes anything takes an [`Admin`], which only [`admit`] makes, and leaves
//! exactly one record at the target `audit`, also where the request is cut off half way.

pub(crate) mod signature;

use std::{fmt, hint::black_box, net::SocketAddr};

use http::{HeaderMap, header};

pub(crate) use self::signature::{
    InvalidSignature, SignedRequest, UsedSignatures, VerifiedSignature, authorization, verify,
};
use crate::{error::WebError, metrics::unix_now};

/// The secret that opens the node to the tools of its operator.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// Takes the text of the token file.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Compares in a time that tells nothing but the length.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (ours, given) = (self.0.as_bytes(), given.as_bytes());
        if ours.is_empty() || ours.len() != given.len() {
            return false;
        }
        let differing = ours
            .iter()
            .zip(given)
            .fold(0_u8, |seen, (a, b)| black_box(seen | (a ^ b)));
        differing == 0
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// Headers that only a request through a proxy carries: its client is somewhere else.
const FORWARDED: [&str; 8] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
];

/// Somebody who may change something.
#[derive(Debug)]
pub(crate) struct Admin {
    who: String,
    /// The same for every request of the same person.
    actor: String,
}

/// Lets in a client that connects from this machine itself and shows the token.
///
/// The place is judged first, so that nobody from elsewhere learns whether a token is right.
pub(crate) fn admit(
    token: &AdminToken,
    peer: SocketAddr,
    headers: &HeaderMap,
) -> Result<Admin, WebError> {
    let is_forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
    if !peer.ip().to_canonical().is_loopback() || is_forwarded {
        tracing::debug!(target: "audit", %peer, "refused: not from this machine");
        return Err(WebError::NotLocal);
    }
    let given = bearer(headers).ok_or(WebError::NoToken)?;
    if !token.is(given) {
        tracing::warn!(target: "audit", %peer, "refused: wrong admin token");
        return Err(WebError::WrongToken);
    }
    Ok(Admin {
        who: format!("admin token from {peer}"),
        actor: "admin token".to_owned(),
    })
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

impl Admin {
    pub(crate) fn actor(&self) -> &str {
        &self.actor
    }

    /// Begins a change; its record is written with its outcome, or when it is dropped.
    pub(crate) fn begin(self, what: &'static str, subject: impl fmt::Display) -> Audit {
        Audit {
            who: self.who,
            what,
            subject: subject.to_string(),
            outcome: None,
        }
    }
}

/// A change under way.
#[must_use = "end it with its outcome"]
pub(crate) struct Audit {
    who: String,
    what: &'static str,
    subject: String,
    outcome: Option<String>,
}

impl Audit {
    pub(crate) fn end(mut self, outcome: impl Into<String>) {
        self.outcome = Some(outcome.into());
    }

    /// Ends the change of something that may not exist.
    pub(crate) fn end_found<E: fmt::Display>(
        self,
        found: Result<bool, E>,
        done: &str,
    ) -> Result<bool, E> {
        match &found {
            Ok(true) => self.end(done),
            Ok(false) => self.end("not found"),
            Err(error) => self.end(format!("failed: {error}")),
        }
        found
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let outcome = self.outcome.as_deref();
        tracing::info!(
            target: "audit",
            who = self.who,
            what = self.what,
            subject = self.subject,
            outcome = outcome.unwrap_or("cancelled before the outcome was known"),
            "operator request",
        );
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(unix_now()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::headers;

    const TOKEN: &str = "0123456789abcdef";

    fn ask(peer: &str, pairs: &[(&'static str, &str)]) -> Result<Admin, WebError> {
        let token = AdminToken::new(TOKEN);
        admit(&token, peer.parse().unwrap(), &headers(pairs))
    }

    const RIGHT: (&str, &str) = ("authorization", "Bearer 0123456789abcdef");

    #[test]
    fn the_right_token_from_this_machine_is_let_in() {
        for peer in "127.0.0.1:1 127.8.8.8:1 [::1]:1 [::ffff:127.0.0.1]:1".split(' ') {
            assert!(ask(peer, &[RIGHT]).is_ok(), "{peer}");
        }
        let spelled = ("authorization", "bearer  0123456789abcdef");
        assert!(ask("127.0.0.1:1", &[spelled]).is_ok());
    }

    #[test]
    fn without_the_right_token_nobody_is_let_in() {
        assert!(matches!(ask("127.0.0.1:1", &[]), Err(WebError::NoToken)));
        for value in ["Basic 0123456789abcdef", "0123456789abcdef"] {
            let refused = ask("127.0.0.1:1", &[("authorization", value)]);
            assert!(matches!(refused, Err(WebError::NoToken)), "{value}");
        }
        for token in ["", "0123456789abcdeF", "0123456789abcdef0"] {
            let value = format!("Bearer {token}");
            let refused = ask("127.0.0.1:1", &[("authorization", &value)]);
            assert!(matches!(refused, Err(WebError::WrongToken)), "{value}");
        }
        let empty = admit(
            &AdminToken::new(""),
            "127.0.0.1:1".parse().unwrap(),
            &headers(&[("authorization", "Bearer ")]),
        );
        assert!(matches!(empty, Err(WebError::WrongToken)));
    }

    #[test]
    fn from_elsewhere_the_token_is_not_even_looked_at() {
        for peer in ["203.0.113.7:1", "10.0.0.1:1", "[2001:db8::1]:1"] {
            assert!(matches!(ask(peer, &[RIGHT]), Err(WebError::NotLocal)));
        }
        for name in FORWARDED {
            let refused = ask("127.0.0.1:1", &[RIGHT, (name, "127.0.0.1")]);
            assert!(matches!(refused, Err(WebError::NotLocal)), "{name}");
        }
    }
}
