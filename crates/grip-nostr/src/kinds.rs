//! The kinds this node knows by number.

use nostr::prelude::Kind;

pub const PROFILE: Kind = Kind::Custom(0);
pub const DELETION: Kind = Kind::Custom(5);
pub const VANISH: Kind = Kind::Custom(62);
pub const PATCH: Kind = Kind::Custom(1617);
pub const PULL_REQUEST: Kind = Kind::Custom(1618);
pub const PULL_REQUEST_UPDATE: Kind = Kind::Custom(1619);
pub const ISSUE: Kind = Kind::Custom(1621);
pub const AUTH: Kind = Kind::Custom(22242);
pub const RELAY_LIST: Kind = Kind::Custom(10002);
pub const GRASP_LIST: Kind = Kind::Custom(10317);
pub const ANNOUNCEMENT: Kind = Kind::Custom(30617);
pub const STATE: Kind = Kind::Custom(30618);

/// Kinds that anybody may store here: they relate nothing, else one would be a licence for spam.
pub const TAKEN_FROM_ANYBODY: [Kind; 5] = [PROFILE, DELETION, VANISH, RELAY_LIST, GRASP_LIST];

/// Kinds by which an author takes events back.
pub fn is_request(kind: Kind) -> bool {
    [DELETION, VANISH].contains(&kind)
}

/// What a relay does with an event of this kind (NIP-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Regular,
    Replaceable,
    Ephemeral,
    Addressable,
}

/// The NIP-01 class of a kind; numbers without a class count as regular.
pub fn class(kind: Kind) -> Class {
    match kind.as_u16() {
        0 | 3 | 10_000..=19_999 => Class::Replaceable,
        20_000..=29_999 => Class::Ephemeral,
        30_000..=39_999 => Class::Addressable,
        _ => Class::Regular,
    }
}
