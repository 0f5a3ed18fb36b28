//! Per-host politeness: permits, sliding windows, breakers, advice, fair queues.
