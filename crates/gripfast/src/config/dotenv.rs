//! The `.env` file: `KEY=value` lines, as shells and systemd read them.

/// One assignment and the line it stands on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) line: usize,
}

/// Reads assignments; the second list has the numbers of lines that are none.
pub(crate) fn parse(text: &str) -> (Vec<Assignment>, Vec<usize>) {
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        match line
            .split_once('=')
            .map(|(name, value)| (name.trim(), unquote(value.trim())))
        {
            Some((name, Some(value))) if is_name(name) => {
                found.push(Assignment {
                    name: name.to_owned(),
                    value,
                    line: index + 1,
                });
            }
            _ => unreadable.push(index + 1),
        }
    }
    (found, unreadable)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The value without its quotes or trailing comment; `None` for a quote that never ends.
fn unquote(value: &str) -> Option<String> {
    match value.chars().next() {
        Some('\'') => {
            let (inside, _) = value[1..].split_once('\'')?;
            Some(inside.to_owned())
        }
        Some('"') => double_quoted(&value[1..]),
        _ => {
            let end = value.find(" #").unwrap_or(value.len());
            Some(value[..end].trim_end().to_owned())
        }
    }
}

fn double_quoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, String)> {
        parse(text)
            .0
            .into_iter()
            .map(|a| (a.name, a.value))
            .collect()
    }

    #[test]
    fn quotes_comments_and_export_are_understood() {
        let text =
            "# a comment\n\nexport A=1\nB = two words # why\nC=\"x # \\\"y\\\"\"\nD='$raw'\nE=\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "x # \"y\""),
            ("D", "$raw"),
            ("E", ""),
        ];
        let expected: Vec<_> = expected
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into_iter()
            .collect();
        assert_eq!(values(text), expected);
    }

    #[test]
    fn unreadable_lines_are_named() {
        let (found, unreadable) = parse("nonsense\nA=1\nB=\"open\n=x\n");
        assert_eq!(
            found,
            [Assignment {
                name: "A".into(),
                value: "1".into(),
                line: 2
            }]
        );
        assert_eq!(unreadable, [1, 3, 4]);
    }
}
