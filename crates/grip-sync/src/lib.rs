//! Brings missing git data from remote hosts.
