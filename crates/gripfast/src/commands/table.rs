//! Tables for people: columns as wide as they need to be, and no wider than the terminal. Nothing is cut:
//! what is too long goes on in the next line.

use std::{
    fmt::{Display, Write as _},
    io::IsTerminal as _,
};

use anstyle::{AnsiColor, Color, Style};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const YELLOW: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
/// Where lines end on a terminal that does not say.
const WIDTH: usize = 80;
/// The fewest columns of a text that gives way.
const LEAST: usize = 8;
const INDENT: &str = "  ";
const GAP: &str = "  ";

/// Rows under one head.
pub(crate) struct Table<const N: usize> {
    head: [&'static str; N],
    /// The column that is parted into several lines where one would be too long.
    flexible: usize,
    rows: Vec<([String; N], Option<String>)>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [&'static str; N], flexible: usize) -> Self {
        Self {
            head,
            flexible,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: [&dyn Display; N]) {
        let cells = cells.map(|cell| plain(&cell.to_string()));
        self.rows.push((cells, None));
    }

    /// Says something about the last row on a line of its own, whole.
    pub(crate) fn note(&mut self, text: Option<String>) {
        if let Some((_, note)) = self.rows.last_mut() {
            *note = text.map(|text| plain(&text));
        }
    }

    pub(crate) fn render(&self) -> String {
        let mut widths: [usize; N] = self.head.map(|title| title.chars().count());
        for (row, _) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let all = widths.iter().sum::<usize>() + INDENT.len() + GAP.len() * (N - 1);
        let least = self.head[self.flexible].chars().count().max(LEAST);
        let spare = widths[self.flexible].saturating_sub(all.saturating_sub(screen_width()));
        widths[self.flexible] = spare.max(least.min(widths[self.flexible]));
        let mut out = String::new();
        let head = line(&self.head.map(str::to_owned), &widths);
        let _ = writeln!(out, "{DIM}{head}{DIM:#}");
        for (row, note) in &self.rows {
            let mut row = row.clone();
            let wrapped = wrap(&row[self.flexible], widths[self.flexible]);
            let mut wrapped = wrapped.into_iter();
            row[self.flexible] = wrapped.next().unwrap_or_default();
            let _ = writeln!(out, "{}", line(&row, &widths));
            for rest in wrapped {
                let mut below = [const { String::new() }; N];
                below[self.flexible] = rest;
                let _ = writeln!(out, "{}", line(&below, &widths));
            }
            if let Some(note) = note {
                let _ = writeln!(out, "{INDENT}{INDENT}{DIM}{note}{DIM:#}");
            }
        }
        out
    }
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let padded = cells.iter().zip(widths);
    let padded = padded.map(|(cell, width)| format!("{cell:width$}"));
    let line = padded.collect::<Vec<_>>().join(GAP);
    format!("{INDENT}{line}").trim_end().to_owned()
}

/// The columns that lines may have: those of the terminal, and any number for a file or a program.
pub(crate) fn screen_width() -> usize {
    if cfg!(test) {
        return WIDTH;
    }
    if !std::io::stdout().is_terminal() {
        return usize::MAX;
    }
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0))
}

/// A text of somebody else without what a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

/// A text in lines of at most `width` characters: parted at spaces where there are some, and nothing
/// is left out.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() <= width {
            used += 1;
            lines.last_mut().expect("there is a line").push(' ');
        } else if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            let last = lines.last_mut().expect("there is a line");
            last.extend(std::mem::replace(&mut word, rest));
            lines.push(String::new());
        }
        used += word.len();
        lines.last_mut().expect("there is a line").extend(word);
    }
    lines
}

/// Prints a page that was laid out. Lines that the terminal has no room for are parted at spaces.
pub(crate) fn print(page: &str) {
    anstream::print!("{}", folded(page, screen_width()));
}

/// A text whose lines have at most `width` columns, as far as there are spaces; what goes on below is
/// indented a little more than its beginning.
fn folded(text: &str, width: usize) -> String {
    let columns = |text: &str| {
        anstream::adapter::strip_str(text)
            .to_string()
            .chars()
            .count()
    };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        if columns(content) <= width {
            out.push_str(line);
            continue;
        }
        let spaces = content.chars().take_while(|c| *c == ' ').count();
        let indent = (spaces + INDENT.len()).min(width / 2);
        let mut used = 0;
        for (index, word) in content.split(' ').enumerate() {
            let needed = columns(word) + usize::from(index > 0);
            if used + needed > width && used > spaces {
                let _ = write!(out, "\n{:indent$}{word}", "");
                used = indent + columns(word);
                continue;
            }
            out.extend((index > 0).then_some(' '));
            out.push_str(word);
            used += needed;
        }
        out.push('\n');
    }
    out
}

/// A table under a title, unless there is none.
pub(crate) fn section(out: &mut String, title: &str, table: Option<String>) {
    if let Some(table) = table {
        let _ = write!(out, "\n{BOLD}{title}{BOLD:#}\n{table}");
    }
}

/// A number of things.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// A number of things whose plural is a word of its own.
pub(crate) fn counted_as(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// The first digits of an event id.
pub(crate) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// A line about entries that a list leaves out.
pub(crate) fn more(out: &mut String, total: usize, listed: usize) {
    if total > listed && listed > 0 {
        let _ = writeln!(out, "  {DIM}and {} more{DIM:#}", total - listed);
    }
}

/// A text as a terminal without colours shows it.
#[cfg(test)]
pub(crate) fn unstyled(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A budget as a picture: `▰▰▱▱▱ 2/5`.
pub(crate) fn gauge(used: u32, limit: u32, cells: u32) -> String {
    let full = match limit {
        0 => cells,
        // Rounded up: one request under way is seen.
        limit => (u64::from(used) * u64::from(cells)).div_ceil(u64::from(limit)) as u32,
    };
    let full = full.min(cells) as usize;
    let empty = cells as usize - full;
    format!("{}{} {used}/{limit}", "▰".repeat(full), "▱".repeat(empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_a_terminal_and_nothing_is_cut() {
        let mut table = Table::new(["host", "what it said", "when"], 1);
        table.row([&"a.example", &"no answer ".repeat(20), &"now"]);
        table.row([&"b.example", &"x".repeat(150), &"in 3m"]);
        let text = unstyled(&table.render());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        assert_eq!(text.matches("answer").count(), 20, "{text}");
        assert_eq!(text.matches('x').count(), 150 + 2, "{text}");
        assert!(text.lines().next().unwrap().starts_with("  host"));
    }

    #[test]
    fn a_long_line_is_parted_at_spaces_and_whole_words_stay_whole() {
        let npub = "npub1".to_owned() + &"q".repeat(58);
        let text = format!("short\n  {BOLD}next step{BOLD:#}  push to {npub} and then again\n");
        let shown = unstyled(&folded(&text, 80));
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[..2], ["short", "  next step  push to"]);
        assert_eq!(lines[2], format!("    {npub} and then"));
        assert_eq!(lines[3..], ["    again"]);
        assert!(folded(&text, 40).contains(&npub), "nothing is cut");
        assert_eq!(folded(&text, usize::MAX), text);
    }

    #[test]
    fn nothing_of_a_stranger_steers_the_terminal() {
        let mut table = Table::new(["key", "when"], 0);
        table.row([&"\u{1b}[2Jgone\n", &"now"]);
        table.note(Some("a\u{7}\u{9b}31m\r\nb".into()));
        let text = table.render();
        assert!(!text.contains(['\u{7}', '\u{9b}', '\r']), "{text:?}");
        assert!(!text.contains("\u{1b}[2J"), "{text:?}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn a_gauge_shows_what_is_used() {
        assert_eq!(gauge(0, 5, 5), "▱▱▱▱▱ 0/5");
        assert_eq!(gauge(1, 30, 6), "▰▱▱▱▱▱ 1/30");
        assert_eq!(gauge(9, 5, 5), "▰▰▰▰▰ 9/5");
    }
}
