//! Patterns of module paths, as `GOPRIVATE` and `GONOSUMDB` have them.

use std::{fmt, str::FromStr};

use crate::ModulePath;

/// Longest pattern: matching takes time with its length.
const MAX_BYTES: usize = 256;

/// A pattern such as `*.corp.example.com` or `github.com/acme`, which stands for all paths whose
/// first elements it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    elements: Vec<Vec<Token>>,
    text: String,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPattern {
    #[error("a pattern is at most {MAX_BYTES} bytes")]
    TooLong,
    #[error("an element of a pattern is empty")]
    Empty,
    #[error("`[` has to be closed by `]`, with characters or ranges in between")]
    Class,
    #[error("`\\` stands before the character that it means")]
    Escape,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    One(char),
    /// `?`
    Any,
    /// `*`
    Many,
    /// `[a-z]`, `[^a-z]`
    Class {
        ranges: Vec<(char, char)>,
        is_negated: bool,
    },
}

impl PathPattern {
    /// Whether the path, or a path that it is below of, fits.
    pub fn matches(&self, path: &ModulePath) -> bool {
        let mut elements = path.as_str().split('/');
        let mut patterns = self.elements.iter();
        patterns.all(|pattern| {
            let element = elements.next();
            element.is_some_and(|element| fits(pattern, &element.chars().collect::<Vec<_>>()))
        })
    }
}

impl FromStr for PathPattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        if text.len() > MAX_BYTES {
            return Err(InvalidPattern::TooLong);
        }
        let trimmed = text.trim_end_matches('/');
        let elements = trimmed.split('/').map(tokens);
        Ok(Self {
            elements: elements.collect::<Result<_, _>>()?,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn tokens(element: &str) -> Result<Vec<Token>, InvalidPattern> {
    let mut tokens = Vec::new();
    let mut characters = element.chars().peekable();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '?' => Token::Any,
            '*' => Token::Many,
            '\\' => Token::One(characters.next().ok_or(InvalidPattern::Escape)?),
            '[' => {
                let is_negated = characters.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    let low = match characters.next().ok_or(InvalidPattern::Class)? {
                        ']' if !ranges.is_empty() => break,
                        '\\' => characters.next().ok_or(InvalidPattern::Escape)?,
                        ']' | '-' => return Err(InvalidPattern::Class),
                        low => low,
                    };
                    let high = match characters.next_if_eq(&'-') {
                        None => low,
                        Some(_) => match characters.next().ok_or(InvalidPattern::Class)? {
                            '\\' => characters.next().ok_or(InvalidPattern::Escape)?,
                            ']' | '-' => return Err(InvalidPattern::Class),
                            high => high,
                        },
                    };
                    ranges.push((low, high));
                }
                Token::Class { ranges, is_negated }
            }
            character => Token::One(character),
        });
    }
    if tokens.is_empty() {
        return Err(InvalidPattern::Empty);
    }
    Ok(tokens)
}

/// Matches with one place to go back to: the latest `*`.
fn fits(pattern: &[Token], text: &[char]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(Token::Many) => {
                star = Some((at, read));
                at += 1;
            }
            Some(token) if is_one(token, text[read]) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((place, from)) = star else {
                    return false;
                };
                star = Some((place, from + 1));
                at = place + 1;
                read = from + 1;
            }
        }
    }
    pattern[at..].iter().all(|token| *token == Token::Many)
}

fn is_one(token: &Token, character: char) -> bool {
    match token {
        Token::One(one) => *one == character,
        Token::Any => true,
        Token::Many => false,
        Token::Class { ranges, is_negated } => {
            let is_in = ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&character));
            is_in != *is_negated
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let pattern: PathPattern = pattern.parse().unwrap();
        pattern.matches(&ModulePath::parse(path).unwrap())
    }

    /// The examples of `go help module-private`, and those of `path.Match`.
    #[test]
    fn patterns_are_those_of_goprivate() {
        for (pattern, path, expected) in [
            ("*.corp.example.com", "git.corp.example.com/xyzzy", true),
            ("*.corp.example.com", "corp.example.com/xyzzy", false),
            ("rsc.io/private", "rsc.io/private", true),
            ("rsc.io/private", "rsc.io/private/quux", true),
            ("rsc.io/private", "rsc.io/privately", false),
            ("rsc.io/private", "rsc.io", false),
            ("rsc.io/private/", "rsc.io/private/quux", true),
            ("github.com/acme", "github.com/acme/lib/v2", true),
            ("github.com/*/secret", "github.com/acme/secret/x", true),
            ("github.com/*/secret", "github.com/acme/other/secret", false),
            ("example.com/a?c", "example.com/abc", true),
            ("example.com/[a-c]x", "example.com/bx", true),
            ("example.com/[^a-c]x", "example.com/bx", false),
            ("example.com/a*c*e", "example.com/abcde", true),
            ("example.com/a*c*e", "example.com/abcdef", false),
            ("*", "example.com/anything", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "a//b",
            "/a",
            "[",
            "[]",
            "[a-",
            "[-z]",
            "a\\",
            &"a".repeat(257),
        ] {
            assert!(text.parse::<PathPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_a_few() {
        let pattern = format!("{}b", "*a".repeat(120));
        let path = format!("example.com/{}", "a".repeat(200));
        assert!(!matches(&format!("example.com/{pattern}"), &path));
    }
}
