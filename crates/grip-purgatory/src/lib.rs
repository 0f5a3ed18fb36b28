//! What waits for what; pure: input and now give effects.
