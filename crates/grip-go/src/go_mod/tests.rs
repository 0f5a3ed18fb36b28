use proptest::prelude::*;

use super::*;

fn path_of(text: &str) -> String {
    module_path(text.as_bytes()).unwrap().to_string()
}

#[test]
fn the_module_line_is_found_in_every_form_that_go_writes_or_takes() {
    for text in [
        "module example.com/m",
        "module example.com/m\n\ngo 1.19\n",
        "module\texample.com/m\r\n",
        "  module   example.com/m   // Deprecated: use another\n",
        "module example.com/m//comment\n",
        "// a licence\n\n// module example.com/no\nmodule example.com/m\n",
        "module \"example.com/m\"\n",
        "module `example.com/m`\n",
        "module \"\\x65xample.com\\u002fm\"\n",
        "module (\n\texample.com/m\n)\n",
        "module ( // why\n\n\t// inside\n\t\"example.com/m\" // that\n)\n",
        "go 1.19\n\nrequire (\n\tmodule v1.0.0\n\tb v1.0.0\n)\n\nmodule example.com/m\n",
        "require example.com/x v1.0.0 // \"\nmodule example.com/m",
        "future thing \"without end\nmodule example.com/m\n",
        "require ()\nmodule example.com/m\n",
        "(\nmodule example.com/m\n",
        "retract [v1.0.0, v1.1.0]\nmodule example.com/m\n",
    ] {
        assert_eq!(path_of(text), "example.com/m", "{text:?}");
    }
}

#[test]
fn a_comment_in_another_encoding_does_not_hide_the_module() {
    let text = b"module example.com/m // caf\xe9\n// \xff\xfe\n";
    assert_eq!(module_path(text).unwrap().as_str(), "example.com/m");
}

#[test]
fn what_is_wrong_with_a_go_mod_is_said() {
    let (missing, binary) = ("go.mod has no module line", "go.mod is not UTF-8 text");
    let malformed = "line 1 of go.mod is not the word module and one path";
    let not_a_path = |why: &str| format!("line 1 of go.mod: {why}");
    for (text, sentence) in [
        (&b""[..], missing),
        (b"go 1.19\n", missing),
        (b"module\n", malformed),
        (b"modules example.com/m\n", missing),
        (b"\xef\xbb\xbfmodule example.com/m\n", missing),
        (b"require (\nmodule example.com/m\n", missing),
        (b"\xff\xfem\0o\0d\0", binary),
        (b"module example.com/\xff\n", binary),
        (
            b"module example.com/a\nmodule example.com/b\n",
            "go.mod has a second module line, line 2",
        ),
        (
            b"module (\nexample.com/a\nexample.com/b\n)\n",
            "go.mod has a second module line, line 3",
        ),
        (
            b"\n\nmodule example.com/m v1.0.0\n",
            &malformed.replace('1', "3"),
        ),
        (b"module \"example.com/m\n", malformed),
        (b"module 'example.com/m'\n", malformed),
        (b"module example.com/\"m\"\n", malformed),
        (b"module \"\\q\"\n", malformed),
        (
            b"module m\n",
            &not_a_path(
                "\"m\" is no module path: its first element has no dot, so it is no domain",
            ),
        ),
        (
            b"module \"\"\n",
            &not_a_path("\"\" is no module path: it is empty"),
        ),
        (
            b"module example.com/../m\n",
            &not_a_path("\"example.com/../m\" is no module path: an element of it is only dots"),
        ),
    ] {
        let bad = module_path(text).unwrap_err();
        assert_eq!(bad.to_string(), sentence, "{:?}", text.escape_ascii());
    }
}

#[test]
fn a_go_mod_above_the_limit_is_not_read() {
    let mut text = b"module example.com/m\n".to_vec();
    text.resize(MAX_BYTES, b' ');
    assert!(module_path(&text).is_ok());
    text.push(b' ');
    assert_eq!(module_path(&text), Err(Bad::TooLarge));
}

/// What a careless reader goes over again and again: it would still be at it when the test is
/// ended from outside.
#[test]
fn much_of_anything_takes_linear_time() {
    for piece in [
        "module ",
        "\n",
        "module\n",
        "(\n",
        "module (\n",
        "\"\\",
        "`",
        "/",
        "// ",
        "a,",
        "module \"",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        assert!(module_path(text.as_bytes()).is_err(), "{piece:?}");
        assert_eq!(language(text.as_bytes()), None);
    }
}

#[test]
fn a_long_path_is_repeated_in_part() {
    let text = format!("module example.com/{}", "\u{1b}".repeat(1 << 20));
    let sentence = module_path(text.as_bytes()).unwrap_err().to_string();
    assert!(sentence.len() < 2000, "{}", sentence.len());
    assert!(!sentence.contains('\u{1b}'));
}

#[test]
fn the_go_line_says_the_language() {
    for (line, expected) in [
        ("go 1.24", Some((1, 24))),
        ("go 1.24.1", Some((1, 24))),
        ("go 1.24rc1", Some((1, 24))),
        ("go 1.9", Some((1, 9))),
        ("go v1.24.x", Some((1, 24))),
        ("go 1.24-custom", Some((1, 24))),
        ("go v1.24", None),
        ("go 1", None),
        ("go 0.9", None),
        ("go 1.024", None),
        ("go 1.+24", None),
        ("go 1.24 1.25", None),
        ("go (\n1.24\n)", None),
        ("go 1.24\ngo 1.24", None),
        ("go 1.99999999999", None),
        ("toolchain go1.24", None),
    ] {
        let text = format!("module example.com/m\n\n{line}\n");
        let seen = language(text.as_bytes()).map(|seen| (seen.major, seen.minor));
        assert_eq!(seen, expected, "{line}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = module_path(&text);
        let _ = language(&text);
    }

    #[test]
    fn nothing_near_a_go_mod_is_too_strange(
        text in "(module|go|require|\\(|\\)|\"|`|\\\\|//|/|,| |\t|\r|\n|x|1\\.2|é){0,40}",
    ) {
        let _ = module_path(text.as_bytes());
        let _ = language(text.as_bytes());
    }

    #[test]
    fn a_written_path_is_read_again(name in "[a-zA-Z0-9_]{1,9}", quote in "[\"`]?") {
        let path = format!("example.com/x{name}x");
        let text = format!("module {quote}{path}{quote}\n");
        prop_assert_eq!(path_of(&text), path);
    }
}
