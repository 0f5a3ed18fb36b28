//! Relay engine over any message stream: sessions, subscriptions, fan-out, group commit.
