//! Leased work: claim, renew, finish, fail; the worker loop.
