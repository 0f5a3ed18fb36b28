use super::*;

fn signer() -> Signer {
    Signer::new("sum.example.com", &[7; 32]).unwrap()
}

#[test]
fn a_note_is_opened_by_the_key_that_signed_it_alone() {
    let signer = signer();
    let head = TreeHead {
        size: 7,
        hash: Hash([9; 32]),
    };
    let note = signer.sign(&head.to_note());
    let verifier: Verifier = signer.verifier().to_string().parse().unwrap();
    let text = verifier.open(&note).unwrap();
    assert_eq!(text, head.to_note());
    assert_eq!(TreeHead::parse(text), Ok(head));

    let stranger = Signer::new("sum.example.com", &[8; 32]).unwrap();
    let refused = stranger.verifier().open(&note);
    assert_eq!(
        refused,
        Err(InvalidNote::NotSigned("sum.example.com".into()))
    );
    let changed = note.replace("\n7\n", "\n8\n");
    let refused = verifier.open(&changed);
    assert_eq!(
        refused,
        Err(InvalidNote::Signature("sum.example.com".into()))
    );
}

#[test]
fn what_is_no_note_is_refused_without_a_panic() {
    let verifier = signer().verifier().clone();
    for text in [
        "",
        "\n",
        "\n\n",
        "a\n\n\u{2014} b",
        "a\n\n\u{2014} b c\n",
        "a\n\nb\n",
        "a\n\n\u{2014} b AAA=\n",
    ] {
        assert_eq!(verifier.open(text), Err(InvalidNote::Form), "{text:?}");
    }
    for text in [
        "",
        "go.sum database tree\n",
        "go.sum database tree\n+7\n",
        "x\n7\n",
    ] {
        assert_eq!(TreeHead::parse(text), Err(InvalidNote::Head), "{text:?}");
    }
}

#[test]
fn keys_that_do_not_fit_their_name_are_refused() {
    let key = signer().verifier().to_string();
    let renamed = key.replace("sum.example.com", "sum.example.org");
    assert_eq!(renamed.parse::<Verifier>(), Err(InvalidKey::Hash));
    for text in ["", "a", "a+b", "a+0+b", "a+00000000+AQ=="] {
        assert_eq!(text.parse::<Verifier>(), Err(InvalidKey::Form), "{text:?}");
    }
    for name in ["", "a b", "a+b", "a\u{a0}b"] {
        let made = Signer::new(name, &[7; 32]).map(drop);
        assert_eq!(made, Err(InvalidKey::Name), "{name:?}");
    }
    // The key of the Go project.
    let known = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
    assert_eq!(known.parse::<Verifier>().unwrap().to_string(), known);
}
