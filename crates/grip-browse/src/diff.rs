//! Differences of two texts: hunks of lines, with the words that changed marked.

use imara_diff::{Algorithm, Diff, Hunk as Span, InternedInput};

use crate::escape;

/// Largest side that is compared.
pub const MAX_BYTES: usize = 512 << 10;
/// Lines around a change.
const CONTEXT: u32 = 3;
/// Longest line shown; of longer ones the beginning is.
const MAX_LINE: usize = 2000;
/// Lines of one file that are shown.
const MAX_LINES: usize = 3000;

/// How a file differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff {
    pub hunks: Vec<Hunk>,
    pub added: usize,
    pub removed: usize,
    /// There are more lines than are shown.
    pub is_cut: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// `@@ -1,3 +1,4 @@`
    pub header: String,
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Both,
    Removed,
    Added,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub side: Side,
    /// Its numbers, from 1.
    pub before: Option<u32>,
    pub after: Option<u32>,
    /// Safe HTML; words that differ from the line on the other side are in `<b>`.
    pub html: String,
}

impl Line {
    /// The sign in front of it.
    pub fn sign(&self) -> char {
        match self.side {
            Side::Both => ' ',
            Side::Removed => '-',
            Side::Added => '+',
        }
    }
}

impl Hunk {
    /// The lines side by side: what was removed at the left, what was added at the right.
    pub fn rows(&self) -> Vec<(Option<&Line>, Option<&Line>)> {
        let mut rows: Vec<(Option<&Line>, Option<&Line>)> = Vec::new();
        // The first row of the present change whose right side is free.
        let mut free = 0;
        for line in &self.lines {
            match line.side {
                Side::Both => {
                    rows.push((Some(line), Some(line)));
                    free = rows.len();
                }
                Side::Removed => rows.push((Some(line), None)),
                Side::Added if free < rows.len() => {
                    rows[free].1 = Some(line);
                    free += 1;
                }
                Side::Added => {
                    rows.push((None, Some(line)));
                    free = rows.len();
                }
            }
        }
        rows
    }
}

/// Compares two texts; `None` if one of them is too large or no text.
pub fn compare(before: &[u8], after: &[u8]) -> Option<FileDiff> {
    let text = |bytes: &[u8]| {
        let is_text = bytes.len() <= MAX_BYTES && !is_binary(bytes);
        is_text.then(|| String::from_utf8_lossy(bytes).into_owned())
    };
    let (before, after) = (text(before)?, text(after)?);
    let input = InternedInput::new(&*before, &*after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let mut out = FileDiff {
        added: diff.count_additions() as usize,
        removed: diff.count_removals() as usize,
        ..FileDiff::default()
    };
    let sides = Sides {
        before: before.split_inclusive('\n').collect(),
        after: after.split_inclusive('\n').collect(),
    };
    let mut shown = 0;
    for group in groups(diff.hunks()) {
        let hunk = sides.hunk(&group);
        shown += hunk.lines.len();
        out.is_cut = shown > MAX_LINES;
        if out.is_cut {
            break;
        }
        out.hunks.push(hunk);
    }
    Some(out)
}

/// Whether a file is something else than text, as git judges it.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(8000)].contains(&0)
}

/// Changes that are so near to each other that their surroundings touch.
fn groups(spans: impl Iterator<Item = Span>) -> Vec<Vec<Span>> {
    let mut groups: Vec<Vec<Span>> = Vec::new();
    for span in spans {
        let last = groups.last().and_then(|group| group.last());
        let touches = last.is_some_and(|last| span.before.start - last.before.end <= 2 * CONTEXT);
        match groups.last_mut() {
            Some(group) if touches => group.push(span),
            _ => groups.push(vec![span]),
        }
    }
    groups
}

struct Sides<'a> {
    before: Vec<&'a str>,
    after: Vec<&'a str>,
}

impl Sides<'_> {
    fn hunk(&self, spans: &[Span]) -> Hunk {
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
            return Hunk::default();
        };
        let lead = first.before.start.min(first.after.start).min(CONTEXT);
        let left = self.before.len() as u32 - last.before.end;
        let trail = left.min(CONTEXT);
        let (mut before, mut after) = (first.before.start - lead, first.after.start - lead);
        let starts = (before, after);
        let mut lines = Vec::new();
        for span in spans {
            self.both(&mut lines, &mut before, &mut after, span.before.start);
            self.change(&mut lines, span);
            (before, after) = (span.before.end, span.after.end);
        }
        let end = before + trail;
        self.both(&mut lines, &mut before, &mut after, end);
        let header = format!(
            "@@ -{},{} +{},{} @@",
            starts.0 + 1,
            before - starts.0,
            starts.1 + 1,
            after - starts.1
        );
        Hunk { header, lines }
    }

    /// Lines that are on both sides, up to `end` of the left.
    fn both(&self, lines: &mut Vec<Line>, before: &mut u32, after: &mut u32, end: u32) {
        while *before < end {
            let text = self.before.get(*before as usize).copied().unwrap_or("");
            (*before, *after) = (*before + 1, *after + 1);
            lines.push(Line {
                side: Side::Both,
                before: Some(*before),
                after: Some(*after),
                html: html(text),
            });
        }
    }

    fn change(&self, lines: &mut Vec<Line>, span: &Span) {
        let of = |all: &[&'_ str], range: &std::ops::Range<u32>| -> Vec<String> {
            let lines = all.get(range.start as usize..range.end as usize);
            let lines = lines.unwrap_or_default().iter();
            lines.map(|line| shown(line).to_owned()).collect()
        };
        let (removed, added) = (of(&self.before, &span.before), of(&self.after, &span.after));
        // Lines that were changed in place; of what was rewritten, no words are the same.
        let pairs: Vec<_> = if removed.len() == added.len() {
            let pairs = removed.iter().zip(&added);
            pairs.map(|(a, b)| words(a, b)).collect()
        } else {
            Vec::new()
        };
        let marked = |at: usize, side: fn(&(String, String)) -> &String, text: &str| {
            let pair = pairs.get(at).and_then(Option::as_ref);
            pair.map_or_else(|| html(text), |pair| side(pair).clone())
        };
        for (at, text) in removed.iter().enumerate() {
            lines.push(Line {
                side: Side::Removed,
                before: Some(span.before.start + at as u32 + 1),
                after: None,
                html: marked(at, |pair| &pair.0, text),
            });
        }
        for (at, text) in added.iter().enumerate() {
            lines.push(Line {
                side: Side::Added,
                before: None,
                after: Some(span.after.start + at as u32 + 1),
                html: marked(at, |pair| &pair.1, text),
            });
        }
    }
}

/// A line without its end, cut if it is too long.
fn shown(line: &str) -> &str {
    let line = line.trim_end_matches(['\n', '\r']);
    &line[..line.floor_char_boundary(MAX_LINE.min(line.len()))]
}

fn html(line: &str) -> String {
    let (text, mut html) = (shown(line), String::new());
    escape(&mut html, text);
    if text.len() < line.trim_end_matches(['\n', '\r']).len() {
        html.push('…');
    }
    html
}

/// Two lines with the words marked that differ; `None` if hardly any is the same.
fn words(before: &str, after: &str) -> Option<(String, String)> {
    let mut input: InternedInput<&str> = InternedInput::default();
    input.update_before(tokens(before));
    input.update_after(tokens(after));
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let kept = input.before.len() - diff.count_removals() as usize;
    let most = input.before.len().max(input.after.len());
    if kept * 3 < most {
        return None;
    }
    let mark = |tokens: &[imara_diff::Token], is_marked: &dyn Fn(u32) -> bool| {
        let (mut html, mut is_open) = (String::new(), false);
        for (at, token) in tokens.iter().enumerate() {
            let marked = is_marked(at as u32);
            if marked != is_open {
                html.push_str(if marked { "<b>" } else { "</b>" });
                is_open = marked;
            }
            escape(&mut html, input.interner[*token]);
        }
        if is_open {
            html.push_str("</b>");
        }
        html
    };
    Some((
        mark(&input.before, &|at| diff.is_removed(at)),
        mark(&input.after, &|at| diff.is_added(at)),
    ))
}

/// Words, and everything between them character by character.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(diff: &FileDiff) -> String {
        let mut out = String::new();
        for hunk in &diff.hunks {
            out.push_str(&format!("{}\n", hunk.header));
            for line in &hunk.lines {
                out.push_str(&format!("{}{}\n", line.sign(), line.html));
            }
        }
        out
    }

    #[test]
    fn a_changed_word_is_marked_on_both_sides() {
        let diff = compare(b"a\nlet x = 1;\nb\n", b"a\nlet y = 1;\nb\n").unwrap();
        assert_eq!(
            text(&diff),
            "@@ -1,3 +1,3 @@\n a\n-let <b>x</b> = 1;\n+let <b>y</b> = 1;\n b\n"
        );
        assert_eq!((diff.added, diff.removed), (1, 1));
        let rows = diff.hunks[0].rows();
        assert_eq!(rows.len(), 3);
        let sides = rows[1];
        assert_eq!(sides.0.unwrap().before, Some(2));
        assert_eq!(sides.1.unwrap().after, Some(2));
    }

    #[test]
    fn far_changes_are_two_hunks_and_near_ones_one() {
        let lines = |skip: &[usize]| -> String {
            let kept = (0..40).filter(|n| !skip.contains(n));
            kept.map(|n| format!("{n}\n")).collect()
        };
        let whole = lines(&[]);
        let hunks = |skip: &[usize]| {
            let diff = compare(whole.as_bytes(), lines(skip).as_bytes()).unwrap();
            diff.hunks.len()
        };
        assert_eq!(hunks(&[5, 30]), 2);
        assert_eq!(hunks(&[5, 12]), 1);
        assert_eq!(hunks(&[0]), 1);
        assert_eq!(hunks(&[39]), 1);
    }

    #[test]
    fn a_new_and_a_removed_file_are_shown_whole() {
        let diff = compare(b"", b"<b>\nx").unwrap();
        assert_eq!(text(&diff), "@@ -1,0 +1,2 @@\n+&lt;b&gt;\n+x\n");
        assert_eq!(compare(b"x\n", b"").unwrap().removed, 1);
        assert_eq!(compare(b"same\n", b"same\n").unwrap().hunks, []);
    }

    #[test]
    fn what_is_no_text_or_too_large_is_not_compared() {
        assert_eq!(compare(b"a\0b", b"x"), None);
        assert_eq!(compare(b"a", &vec![b'x'; MAX_BYTES + 1]), None);
        let long = "x".repeat(400_000);
        let diff = compare(long.as_bytes(), format!("{long}y").as_bytes()).unwrap();
        let longest = diff.hunks[0].lines.iter().map(|line| line.html.len()).max();
        assert!(longest.unwrap() < MAX_LINE + 10);
    }
}
