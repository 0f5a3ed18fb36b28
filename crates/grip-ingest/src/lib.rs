//! GitHub push events: polled, kept, enriched, without holes.
