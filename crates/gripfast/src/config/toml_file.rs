//! The keys of `gripfast.toml`, each with the line it stands on.

use toml::de::{DeTable, DeValue};

/// One key of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The value as the environment would have it; none for a type that no option has.
    pub(crate) value: Option<String>,
    /// What TOML calls its type.
    pub(crate) toml_type: &'static str,
    pub(crate) line: usize,
}

/// Reads all keys; a file that is no TOML gives the line and the parser's own message.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (line_of(text, at), error.message().to_owned())
    })?;
    let entries = table.get_ref().iter().map(|(key, value)| Entry {
        key: key.get_ref().to_string(),
        value: flatten(value.get_ref()),
        toml_type: value.get_ref().type_str(),
        line: line_of(text, key.span().start),
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn flatten(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|i| flatten(i.get_ref())).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_with_their_lines_in_order() {
        let text = "# first\nb = 4_096\n\na = [\"x\", \"y\"]\nc = true\nd = 1.5\n";
        let found = parse(text).unwrap();
        let found = found
            .iter()
            .map(|e| (&*e.key, e.value.as_deref(), e.toml_type, e.line));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                ("b", Some("4096"), "integer", 2),
                ("a", Some("x,y"), "array", 4),
                ("c", Some("true"), "boolean", 5),
                ("d", None, "float", 6),
            ]
        );
    }

    #[test]
    fn a_broken_file_names_its_line() {
        let (line, message) = parse("a = 1\nb = \n").unwrap_err();
        assert_eq!(line, 2);
        assert!(!message.is_empty());
    }
}
