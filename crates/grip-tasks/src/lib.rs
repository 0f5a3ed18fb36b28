//! Owned tasks, shutdown in phases, periodic work, serial lanes, fault points.
