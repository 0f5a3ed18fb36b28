//! Definitions of indexes and constraints, in words that both engines share.

/// A definition as its words: without case, comments, parentheses, casts, and what an engine adds
/// by itself.
pub(super) fn words(definition: &str) -> String {
    let text = without_comments(definition).to_lowercase();
    let text = text.replace("using btree", " ").replace("public.", " ");
    let mut words: Vec<String> = Vec::new();
    for char in text.chars() {
        let is_name = |char: char| char.is_alphanumeric() || char == '_' || char == '\'';
        match words.last_mut() {
            Some(last) if last.ends_with(is_name) && is_name(char) => last.push(char),
            Some(last) if "<>=!:".contains(char) && last.ends_with(['<', '>', '=', '!', ':']) => {
                last.push(char);
            }
            _ => words.push(char.to_string()),
        }
    }
    words.retain(|word| !matches!(word.trim(), "" | "(" | ")" | "\"" | "asc"));
    let mut kept: Vec<String> = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "::" {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// The CHECK constraints in the definition of a table.
pub(super) fn checks(table: &str) -> Vec<String> {
    let text = without_comments(table);
    let starts = text.to_lowercase();
    let starts = starts.match_indices("check (").map(|(at, _)| at);
    starts
        .map(|start| {
            let mut depth = 0_usize;
            let end = text[start..].find(|char| {
                match char {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => return false,
                }
                depth == 0
            });
            words(&text[start..start + end.expect("each parenthesis is closed")])
        })
        .collect()
}

fn without_comments(definition: &str) -> String {
    let lines = definition.lines();
    let lines = lines.map(|line| line.split("--").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn definitions_differ_by_what_they_mean_and_not_by_how_they_are_written() {
    let same = [
        (
            "CREATE INDEX a ON t (coalesce(b, c), id) -- why\n  WHERE d <> id",
            "CREATE INDEX a ON public.t USING btree (COALESCE(b, c), id) WHERE ((d)::text <> id)",
        ),
        (
            "CREATE INDEX a ON t (b ASC, \"c\" DESC)",
            "CREATE INDEX a ON t USING btree (b, c DESC)",
        ),
        ("CHECK (id = 1)", "CHECK ((id = 1))"),
    ];
    for (one, other) in same {
        assert_eq!(words(one), words(other));
    }
    let index = "CREATE INDEX a ON t (b, c) WHERE d IS NULL";
    for other in [
        "CREATE UNIQUE INDEX a ON t (b, c) WHERE d IS NULL",
        "CREATE INDEX a ON t (b, c DESC) WHERE d IS NULL",
        "CREATE INDEX a ON t (c, b) WHERE d IS NULL",
        "CREATE INDEX a ON t (lower(b), c) WHERE d IS NULL",
        "CREATE INDEX a ON t (b, c) WHERE d IS NOT NULL",
        "CREATE INDEX a ON t (b, c)",
    ] {
        assert_ne!(words(index), words(other));
    }
    let table =
        "CREATE TABLE t (\n  -- no CHECK (here)\n  a BIGINT CHECK (a IN (1, 2)), b CHECK (b <> 0))";
    assert_eq!(checks(table), ["check a in 1 , 2", "check b <> 0"]);
}
