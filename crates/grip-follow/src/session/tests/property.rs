//! Properties under arbitrary messages in any order: the budget is kept, memory is bounded, and
//! nothing is confirmed that was not answered to the end.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Event(u8, u64),
    Eose(u8),
    Closed(u8, &'static str),
    Notice(&'static str),
    Reconcile(u8, Vec<u8>),
    Decide(Fate),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let texts = prop::sample::select(vec![
        "rate-limited: slow down",
        "invalid number of filters",
        "blocked: no",
        "error: whatever",
        "unknown message NEG-OPEN",
        "too many queries",
        "active subscriptions exceed max size 1000 bytes",
        grip_relay::SUBSCRIPTIONS_TOO_LARGE,
    ]);
    let fates = prop::sample::select(vec![
        Fate::Taken,
        Fate::Known,
        Fate::Refused,
        Fate::Worthless,
        Fate::Failed,
    ]);
    prop_oneof![
        6 => (0..12_u8, 0..2_000_000_000_u64).prop_map(|(sub, at)| Act::Event(sub, at)),
        2 => (0..12_u8).prop_map(Act::Eose),
        1 => (0..12_u8, texts.clone()).prop_map(|(sub, text)| Act::Closed(sub, text)),
        1 => texts.prop_map(Act::Notice),
        1 => (0..12_u8, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(sub, bytes)| Act::Reconcile(sub, bytes)),
        2 => fates.prop_map(Act::Decide),
        3 => (0..200_u64).prop_map(Act::Pass),
    ]
}

fn messages(acts: Vec<Act>, nip77: bool) -> Result<(), TestCaseError> {
    let mut plan = Plan::default();
    for class in [Class::Announcements, Class::States, Class::Address] {
        plan.add(class, &"x".into());
    }
    let limits = RemoteLimits {
        max_subscriptions: Some(4),
        ..RemoteLimits::default()
    };
    let mut scene = Scene::with(Arc::new(plan), limits, nip77, Progress::default());
    let mut ended = 0;
    for act in acts {
        if std::mem::take(&mut scene.wants_set) {
            scene.session.set_loaded(Some(Vec::new()), scene.now);
            scene.collect();
        }
        match act {
            Act::Event(sub, at) => scene.deliver(&format!("g{sub}"), at),
            Act::Eose(sub) => {
                ended += 1;
                scene.hear(json!(["EOSE", format!("g{sub}")]));
            }
            Act::Closed(sub, text) => scene.hear(json!(["CLOSED", format!("g{sub}"), text])),
            Act::Notice(text) => scene.hear(json!(["NOTICE", text])),
            Act::Reconcile(sub, bytes) => {
                let hex = faster_hex::hex_string(&bytes);
                scene.hear(json!(["NEG-MSG", format!("g{sub}"), hex]));
            }
            Act::Decide(fate) => {
                scene.decide(fate);
            }
            Act::Pass(seconds) => scene.pass(seconds),
        }
        let status = scene.session.status(scene.now.unix);
        prop_assert!(status.subscriptions <= 4, "{:?}", status);
        // Three filters need three answers.
        if !nip77 && ended < 3 {
            prop_assert!(scene.session.progress.confirmed_at().is_none());
        }
        prop_assert!(scene.session.wake_at(scene.now) >= scene.now.at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// G02-32, G02-34: nothing that a relay names makes state, and no number in its words counts.
    #[test]
    fn g02_32_34_a_session_keeps_its_bounds_whatever_a_relay_says(
        acts in prop::collection::vec(act(), 0..120),
        nip77: bool,
    ) {
        // Instants need a clock.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _guard = runtime.enter();
        messages(acts, nip77)?;
    }
}
