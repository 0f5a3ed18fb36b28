//! Words for failures of object stores: the cause that a person can do something about, in place of the
//! chain of the library.

use std::{error::Error, io};

use grip_egress::FaultKind;
use object_store::Error as StoreError;

/// Longest text that is kept of what a server answered.
const MAX_TEXT: usize = 200;

/// An error with its causes in one line, in which what an object store failed with is translated.
pub fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let failed = of_store(error);
        let words = failed.map_or_else(|| error.to_string(), cause);
        if !text.ends_with(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
        next = error.source().filter(|_| failed.is_none());
    }
    text
}

/// The error of a store, also inside one of I/O.
fn of_store<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a StoreError> {
    let inside = || error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
    error.downcast_ref().or_else(inside)
}

/// Why a store does not do what it was asked for.
pub(crate) fn cause(error: &StoreError) -> String {
    if let Some(kind) = FaultKind::of(error) {
        return format!("the object store cannot be reached: {kind}");
    }
    match error {
        StoreError::NotFound { path, .. } => return format!("the object store has no {path}"),
        StoreError::Unauthenticated { .. } | StoreError::PermissionDenied { .. } => {
            return "the object store refuses the credentials of this node, or they do not allow this".into();
        }
        _ => {}
    }
    let mut last: &(dyn Error + 'static) = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let said = match last.downcast_ref::<io::Error>() {
        Some(error) => error.kind().to_string(),
        None => last.to_string(),
    };
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().take(MAX_TEXT).collect();
    format!("the object store failed: {said}")
}
