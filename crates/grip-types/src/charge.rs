//! The charge for bytes that were sent, by what has become of them.
//!
//! Budgets of strangers count bytes: of pull requests, of events, of downloads. Work may fail after its bytes
//! were counted, and whose fault that is decides what they cost:
//!
//! | what has become of it | charged |
//! |---|---|
//! | it is kept, or came from a server that an event named | all of it, to all whose budgets it takes of |
//! | refused for what it is, or broken off by its sender | a quarter, to the network that sent it alone |
//! | the node failed (its disk, its database), or had it already, or made it give way | nothing |
//!
//! So nobody honest pays for what he has to send again because of the node, a bad link costs him little, and
//! nobody has work done for nothing by sending what is refused at its end. A refusal charges neither author
//! nor repository: anybody can push below their names.
//!
//! A budget that charges in advance refunds the difference itself, and says how.

/// What has become of something that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    Kept,
    Refused,
    NotDone,
}

impl Charge {
    /// What so many bytes cost their sender.
    pub fn of(self, bytes: u64) -> u64 {
        match self {
            Self::Kept => bytes,
            Self::Refused => bytes.div_ceil(4),
            Self::NotDone => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_neither_free_nor_as_dear_as_what_is_kept() {
        let of = |bytes| [Charge::Kept, Charge::Refused, Charge::NotDone].map(|it| it.of(bytes));
        assert_eq!(of(100), [100, 25, 0]);
        assert_eq!(of(1), [1, 1, 0]);
    }
}
