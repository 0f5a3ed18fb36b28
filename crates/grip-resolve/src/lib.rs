//! From a name or a digest to a manifest that proves itself, and to who has it.
