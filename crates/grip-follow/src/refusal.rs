//! Refusals of relays, told apart by their words and never by numbers in them (G02-27 … G02-32).

/// What a relay means by the text of a CLOSED, NEG-ERR or NOTICE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It wants to be left alone for a while.
    RateLimited,
    /// The same, for the number of queries.
    TooManyQueries,
    /// One REQ had too many filters.
    TooManyFilters,
    /// All open subscriptions together may have so many bytes (G02-18), or fewer than they have where
    /// it does not say how many.
    TooManyBytes(Option<u64>),
    /// It wants to know who asks (NIP-42).
    AuthRequired,
    /// It does not serve such requests, or not to us.
    Policy,
    Unknown,
}

impl Refusal {
    pub(crate) fn read(text: &str) -> Self {
        let text = text.to_lowercase();
        let has = |word: &str| text.contains(word);
        let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if let Some(most) = max_active_bytes(&text) {
            Self::TooManyBytes(Some(most))
        } else if has("subscriptions") && has("too much memory") {
            Self::TooManyBytes(None)
        } else if has("filter")
            && any(&[
                "number of filters",
                "filter count",
                "too many filters",
                "max filters",
            ])
        {
            Self::TooManyFilters
        } else if has("too many queries") {
            Self::TooManyQueries
        } else if (has("rate") && has("limit")) || any(&["too many", "slow down", "throttl"]) {
            Self::RateLimited
        } else if has("auth-required") {
            Self::AuthRequired
        } else if any(&[
            "blocked",
            "restricted",
            "member",
            "request rejected",
            "unsupported",
            "too large",
            "too big",
        ]) {
            Self::Policy
        } else {
            Self::Unknown
        }
    }

    /// Says whether a NOTICE means that NIP-77 is not spoken.
    pub(crate) fn is_about_nip77(text: &str) -> bool {
        let text = text.to_lowercase();
        let about = [
            "neg-",
            "negentropy",
            "unknown message",
            "unknown command",
            "bad msg",
        ];
        about.iter().any(|word| text.contains(word))
    }
}

/// The one number that is read in the text of a relay.
fn max_active_bytes(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("active subscriptions exceed max size ")?;
    let (number, _) = rest.split_once(" bytes")?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_27_the_words_of_real_relays_are_understood() {
        use Refusal::*;
        for (text, meaning) in [
            ("rate-limited: slow down there chief", RateLimited),
            ("ERROR: too many concurrent REQs", RateLimited),
            ("too many queries: wait 30 seconds", TooManyQueries),
            ("You are noting too much, throttled", RateLimited),
            ("invalid: invalid number of filters: 11", TooManyFilters),
            ("error: max filter count exceeded", TooManyFilters),
            ("blocked: not on the list", Policy),
            ("auth-required: we only serve members", AuthRequired),
            ("restricted: members only", Policy),
            ("unsupported: filter key `#A`", Policy),
            (
                "ERROR: active subscriptions exceed max size 262144 bytes",
                TooManyBytes(Some(262_144)),
            ),
            (grip_relay::SUBSCRIPTIONS_TOO_LARGE, TooManyBytes(None)),
            (
                "rate-limited: half-received messages of your network take too much memory here; try \
                 again later",
                RateLimited,
            ),
            ("active subscriptions exceed max size -1 bytes", Unknown),
            ("error: could not connect to the database", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(Refusal::read(text), meaning, "{text}");
        }
    }
}
