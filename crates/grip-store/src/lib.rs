//! The event store: served events on LMDB, their indexes, queries and deletions.
