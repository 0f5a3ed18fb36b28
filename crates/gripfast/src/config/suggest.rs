//! "Did you mean …?"

/// The candidate nearest to `word`, if one is near enough to have been meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    const NEAR_ENOUGH: f64 = 0.7;
    let bare = without_prefix(word);
    candidates
        .map(|candidate| {
            (
                strsim::normalized_damerau_levenshtein(bare, without_prefix(candidate)),
                candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= NEAR_ENOUGH)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// What all names share says nothing about which one was meant.
fn without_prefix(name: &str) -> &str {
    let rest = name
        .strip_prefix("GRIPFAST_")
        .or_else(|| name.strip_prefix("NGIT_"));
    rest.unwrap_or(name)
}

/// `; did you mean X?`, or nothing.
pub(crate) fn hint<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    nearest(word, candidates)
        .map(|found| format!("; did you mean {found}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_word_is_suggested() {
        let words = || ["NGIT_DOMAIN", "NGIT_BIND_ADDRESS"].into_iter();
        assert_eq!(nearest("NGIT_DOMIAN", words()), Some("NGIT_DOMAIN"));
        assert_eq!(
            nearest("NGIT_BIND_ADRESS", words()),
            Some("NGIT_BIND_ADDRESS")
        );
        assert_eq!(nearest("NGIT_COLOUR", words()), None);
    }
}
