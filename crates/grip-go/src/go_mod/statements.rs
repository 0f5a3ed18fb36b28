//! The statements of a go.mod, line by line, without a look at what they mean.

/// One line that says something, or one line of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// Counted from one.
    pub(super) line: usize,
    /// The first word of the line, or of the block.
    pub(super) verb: &'a [u8],
    /// The word after the verb, quotes and all.
    pub(super) argument: &'a [u8],
    /// Words after the verb.
    pub(super) arguments: usize,
    pub(super) in_block: bool,
}

/// Reads statements, lenient with all that concerns only other lines.
pub(super) struct Statements<'a> {
    rest: &'a [u8],
    line: usize,
    /// The verb of the block under way.
    block: Option<&'a [u8]>,
}

impl<'a> Statements<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self {
            rest: text,
            line: 0,
            block: None,
        }
    }

    fn next_line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let (line, rest) = self
            .rest
            .split_at(end.map_or(self.rest.len(), |end| end + 1));
        self.rest = rest;
        self.line += 1;
        Some(line.strip_suffix(b"\n").unwrap_or(line))
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = Statement<'a>;

    fn next(&mut self) -> Option<Statement<'a>> {
        loop {
            let text = self.next_line()?;
            let words = Words::of(text);
            let Some(first) = words.first else {
                continue;
            };
            if self.block.is_some() && first == b")" {
                self.block = None;
                continue;
            }
            let line = self.line;
            if let Some(verb) = self.block {
                return Some(Statement {
                    line,
                    verb,
                    argument: first,
                    arguments: words.count,
                    in_block: true,
                });
            }
            if words.count > 1 && words.last == b"(" {
                // Go knows no block that more than one word opens.
                self.block = Some(if words.count == 2 { first } else { b"" });
                continue;
            }
            return Some(Statement {
                line,
                verb: first,
                argument: words.second,
                arguments: words.count - 1,
                in_block: false,
            });
        }
    }
}

/// The words of one line, as few of them as matter.
#[derive(Default)]
struct Words<'a> {
    first: Option<&'a [u8]>,
    second: &'a [u8],
    last: &'a [u8],
    count: usize,
}

impl<'a> Words<'a> {
    fn of(line: &'a [u8]) -> Self {
        let mut words = Self::default();
        let mut rest = line;
        while let Some((word, after)) = next_word(rest) {
            match words.count {
                0 => words.first = Some(word),
                1 => words.second = word,
                _ => {}
            }
            words.last = word;
            words.count += 1;
            rest = after;
        }
        words
    }
}

/// The first word of a line and what follows it; none at its end or at a comment.
pub(super) fn next_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = line.iter().position(|byte| !b" \t\r".contains(byte))?;
    let line = &line[start..];
    let len = match line {
        [b'/', b'/', ..] => return None,
        [b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',', ..] => 1,
        [quote @ (b'"' | b'`'), ..] => quoted_len(line, *quote),
        _ => plain_len(line),
    };
    Some(line.split_at(len))
}

/// The length of a string with its quotes; of the whole line if it does not end.
fn quoted_len(line: &[u8], quote: u8) -> usize {
    let mut bytes = line.iter().enumerate().skip(1);
    while let Some((at, &byte)) = bytes.next() {
        if byte == quote {
            return at + 1;
        }
        if byte == b'\\' && quote == b'"' {
            bytes.next();
        }
    }
    line.len()
}

fn plain_len(line: &[u8]) -> usize {
    let ends = |at: usize| {
        b" \t\r()[]{},".contains(&line[at]) || line[at] == b'/' && line.get(at + 1) == Some(&b'/')
    };
    (0..line.len()).find(|&at| ends(at)).unwrap_or(line.len())
}
