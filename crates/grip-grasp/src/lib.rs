//! Admission, push authorisation, release: drives the purgatory.
