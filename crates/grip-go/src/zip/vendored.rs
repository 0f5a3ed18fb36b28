//! Detection of vendored packages, which a module's zip leaves out.

use crate::go_mod::Language;

/// The language from which on Go's two old mistakes are mended; before, they stay in the sums.
const MENDED: Language = Language {
    major: 1,
    minor: 24,
};

/// Whether Go leaves the file out as part of a vendored package.
pub(super) fn is_vendored(path: &[u8], language: Option<Language>) -> bool {
    let mended = language.is_some_and(|language| language >= MENDED);
    if mended && path == b"vendor/modules.txt" {
        return true;
    }
    let package = if let Some(rest) = path.strip_prefix(b"vendor/") {
        rest
    } else if let Some(at) = find(path, b"/vendor/") {
        // The old mistake: to look behind the length of "/vendor/" and not behind its end.
        let start = if mended { at } else { 0 };
        &path[start + b"/vendor/".len()..]
    } else {
        return false;
    };
    package.contains(&b'/')
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
