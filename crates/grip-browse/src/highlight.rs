//! Highlighted code: lines of safe HTML with a handful of classes, coloured by the stylesheet.
//!
//! One pass over the text, no patterns: comments, strings, numbers, keywords, names of functions
//! and types. Whatever a stranger has written, the work is as large as the text. A language that
//! is not in the table is shown without colours.

mod languages;

use self::languages::{Language, by_name, by_path};
use crate::escape;

/// Largest text that is coloured; larger ones are plain.
const MAX_BYTES: usize = 512 << 10;

/// The lines of a file as HTML.
pub fn file(path: &str, text: &str) -> Vec<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    lines(text, by_path(name, text.lines().next().unwrap_or("")))
}

/// Code in a language that its author names, as in a block of Markdown.
pub fn code(language: &str, text: &str) -> String {
    lines(text, by_name(language)).join("\n")
}

fn lines(text: &str, language: Option<&'static Language>) -> Vec<String> {
    let language = language.filter(|_| text.len() <= MAX_BYTES);
    let mut open = None;
    let lines = text.split_inclusive('\n').map(|line| {
        let line = line.trim_end_matches(['\n', '\r']);
        let mut html = Html::default();
        match language {
            Some(language) if language.is_diff => html.diff(line),
            Some(language) => open = html.code(line, language, open),
            None => html.piece("", line),
        }
        html.end()
    });
    lines.collect()
}

/// The end of a comment or text that goes on over lines, and its class.
type Open = Option<(&'static str, &'static str)>;

/// A line as it is written.
#[derive(Default)]
struct Html {
    text: String,
    class: &'static str,
}

impl Html {
    fn piece(&mut self, class: &'static str, text: &str) {
        if text.is_empty() {
            return;
        }
        // Space takes the colour of what stands before it.
        if class != self.class && !text.trim().is_empty() {
            self.close();
            if !class.is_empty() {
                self.text.push_str("<span class=\"h-");
                self.text.push_str(class);
                self.text.push_str("\">");
            }
            self.class = class;
        }
        escape(&mut self.text, text);
    }

    fn close(&mut self) {
        if !self.class.is_empty() {
            self.text.push_str("</span>");
        }
        self.class = "";
    }

    fn end(mut self) -> String {
        self.close();
        self.text
    }

    fn diff(&mut self, line: &str) {
        let class = match line.as_bytes().first() {
            Some(b'+') => "s",
            Some(b'-') => "d",
            Some(b'@') => "n",
            _ => "",
        };
        self.piece(class, line);
    }

    /// Writes one line; returns what is still open at its end.
    fn code(&mut self, line: &str, language: &'static Language, open: Open) -> Open {
        let mut rest = line;
        if let Some((end, class)) = open {
            let Some(at) = rest.find(end) else {
                self.piece(class, rest);
                return open;
            };
            let (inside, after) = rest.split_at(at + end.len());
            self.piece(class, inside);
            rest = after;
        }
        while let Some(first) = rest.chars().next() {
            if let Some((start, end, class)) = language.open(rest) {
                let body = &rest[start.len()..];
                let Some(at) = body.find(end) else {
                    self.piece(class, rest);
                    return Some((end, class));
                };
                let (inside, after) = rest.split_at(start.len() + at + end.len());
                self.piece(class, inside);
                rest = after;
                continue;
            }
            if language
                .line_comments
                .iter()
                .any(|start| rest.starts_with(start))
            {
                self.piece("c", rest);
                return None;
            }
            let (class, len) = token(rest, first, language);
            let (token, after) = rest.split_at(len);
            self.piece(class, token);
            rest = after;
        }
        None
    }
}

/// The class and the bytes of the next token, which stays on its line.
fn token(rest: &str, first: char, language: &Language) -> (&'static str, usize) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if language.quotes.contains(first) {
        return match quoted(rest, first, language.has_lifetimes) {
            Some(len) => ("s", len),
            None => ("", first.len_utf8()),
        };
    }
    if first.is_ascii_digit() {
        let end = rest.find(|c: char| !is_word(c) && c != '.');
        return ("n", end.unwrap_or(rest.len()));
    }
    if is_word(first) {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let class = if language.has_keyword(word) {
            "k"
        } else if rest[end..].starts_with('(') || rest[end..].starts_with("!(") {
            "f"
        } else if first.is_uppercase() && language.has_types {
            "t"
        } else {
            ""
        };
        return (class, end);
    }
    ("", first.len_utf8())
}

/// The bytes of a text in quotes; `None` where the quote is something else.
fn quoted(rest: &str, quote: char, has_lifetimes: bool) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if has_lifetimes && quote == '\'' && at > 12 {
            return None;
        }
        if c == quote && !is_escaped {
            // 'a, 'b> is two lifetimes and no text.
            let is_long = has_lifetimes && quote == '\'' && rest[1..at].chars().count() > 1;
            let is_text = !is_long || rest[1..].starts_with('\\');
            return is_text.then_some(at + c.len_utf8());
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    (!has_lifetimes || quote != '\'').then_some(rest.len())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn code_is_coloured_by_its_name_and_keeps_its_text() {
        let lines = file(
            "src/main.rs",
            "fn main() { // <b>\n    \"x\\\"\"; 'a'; &'a T\n}\n",
        );
        assert_eq!(
            lines,
            [
                "<span class=\"h-k\">fn </span><span class=\"h-f\">main</span>() { <span class=\"h-c\">// &lt;b&gt;</span>",
                "    <span class=\"h-s\">&quot;x\\&quot;&quot;</span>; <span class=\"h-s\">&#39;a&#39;</span>; &amp;&#39;a <span class=\"h-t\">T</span>",
                "}",
            ]
        );
    }

    #[test]
    fn comments_and_texts_go_on_over_lines() {
        let lines = file("a.py", "x = \"\"\"a\nif\n\"\"\" + 1\n");
        assert!(lines[1].starts_with("<span class=\"h-s\">if"), "{lines:?}");
        assert!(lines[2].contains("h-n\">1"), "{lines:?}");
        let lines = file("a.c", "/* a\nint */ int\n");
        assert_eq!(
            lines[1],
            "<span class=\"h-c\">int */ </span><span class=\"h-k\">int</span>"
        );
    }

    #[test]
    fn files_are_known_by_name_extension_and_first_line() {
        for (path, text) in [
            ("Makefile", "# x"),
            ("Dockerfile", "# x"),
            ("a/b.TOML", "# x"),
            ("run", "#!/bin/sh"),
            ("go.mod", "// x"),
        ] {
            let html = file(path, text).concat();
            assert!(html.contains("h-c"), "{path}: {html}");
        }
        assert_eq!(file("x.unknown", "// <x>"), ["// &lt;x&gt;"]);
        assert!(code("diff", "+a\n-b").contains("h-d"));
    }

    #[test]
    fn hostile_text_ends_in_time_and_as_text() {
        let nested = "((((<script>'\"`${/*".repeat(20);
        let long = "'a".repeat(200_000);
        for text in [
            format!("{nested}\n").repeat(300),
            long,
            "\\\"".repeat(100_000),
        ] {
            for path in ["a.rs", "a.js", "a.py", "a.html", "a.sh", "a.c"] {
                let began = Instant::now();
                let html = file(path, &text).concat();
                assert!(!html.contains("<script"), "{path}");
                let took = began.elapsed();
                assert!(took < Duration::from_secs(10), "{path} took {took:?}");
            }
        }
    }
}
