//! The `.env` file: `KEY=value` lines, as shells and systemd read them.

use std::path::Path;

use super::Source;

/// A variable of the environment or of a `.env` file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) source: Source,
}

/// Reads assignments; the second list has the numbers of lines that are none.
pub(super) fn parse(path: &Path, text: &str) -> (Vec<Variable>, Vec<usize>) {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match assignment(text) {
            Some((name, value)) => found.push(Variable {
                name: name.to_owned(),
                value,
                source: Source::File {
                    path: path.to_owned(),
                    line,
                },
            }),
            None => unreadable.push(line),
        }
    }
    (found, unreadable)
}

fn assignment(line: &str) -> Option<(&str, String)> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let value = unquote(value.trim())?;
    (!name.is_empty() && name.bytes().all(is_name)).then_some((name, value))
}

/// The value without its quotes or trailing comment; `None` for a quote that never ends.
fn unquote(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.split_once('\'').map(|(inside, _)| inside.to_owned());
    }
    let Some(rest) = value.strip_prefix('"') else {
        let end = value.find(" #").unwrap_or(value.len());
        return Some(value[..end].trim_end().to_owned());
    };
    let (mut out, mut chars) = (String::new(), rest.chars());
    loop {
        out.push(match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                'n' => '\n',
                other => other,
            },
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_comments_and_export_are_understood_and_unreadable_lines_named() {
        let text = "# a comment\n\nexport A=1\nB = two words # why\nC=\"x # \\\"y\\\"\"\nD='$raw'\n\
                    E=\nnonsense\nF=\"open\n=x\n";
        let (found, unreadable) = parse(Path::new(".env"), text);
        let shown = |v: &Variable| format!("{} {}={}", v.source, v.name, v.value);
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            [
                ".env:3 A=1",
                ".env:4 B=two words",
                ".env:5 C=x # \"y\"",
                ".env:6 D=$raw",
                ".env:7 E=",
            ]
        );
        assert_eq!(unreadable, [8, 9, 10]);
    }
}
