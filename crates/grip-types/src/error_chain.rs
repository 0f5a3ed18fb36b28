//! Errors with their causes in one line.

use std::{error::Error, fmt};

/// Prints an error and each of its causes, `a: b: c`; one that the text before ends with already
/// is left out.
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            (last, next) = (text, cause.source());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Step {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn chain(texts: &[&'static str]) -> String {
        let steps = texts
            .iter()
            .rev()
            .fold(None, |source, text| Some(Box::new(Step { text, source })));
        ErrorChain(&*steps.unwrap()).to_string()
    }

    #[test]
    fn causes_follow_and_none_is_said_twice_in_a_row() {
        assert_eq!(chain(&["a"]), "a");
        assert_eq!(chain(&["a", "b", "c"]), "a: b: c");
        assert_eq!(chain(&["a: b", "b", "c"]), "a: b: c");
        assert_eq!(chain(&["a", "b", "b"]), "a: b");
    }
}
