//! Loom's forms of the names in [`super`].

pub(crate) use loom::sync::{Arc, atomic::AtomicU64};

/// A lock with the calls of the real one.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0
            .lock()
            .expect("because a model ends at its first panic")
    }
}

/// A channel for one value that keeps the promises of tokio's: what was sent and not received is
/// dropped with the receiver, and a sender without a receiver gets its value back.
pub(crate) mod oneshot {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use super::{Arc, Mutex};

    struct State<T> {
        value: Option<T>,
        waker: Option<Waker>,
        sender_gone: bool,
        receiver_gone: bool,
    }

    type Shared<T> = Arc<Mutex<State<T>>>;

    pub(crate) struct Sender<T>(Shared<T>);
    pub(crate) struct Receiver<T>(Shared<T>);

    #[derive(Debug)]
    pub(crate) struct Gone;

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let state = State {
            value: None,
            waker: None,
            sender_gone: false,
            receiver_gone: false,
        };
        let shared = Arc::new(Mutex::new(state));
        (Sender(Arc::clone(&shared)), Receiver(shared))
    }

    impl<T> Sender<T> {
        pub(crate) fn send(self, value: T) -> Result<(), T> {
            let mut state = self.0.lock();
            if state.receiver_gone {
                return Err(value);
            }
            state.value = Some(value);
            Ok(())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            let mut state = self.0.lock();
            state.sender_gone = true;
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, Gone>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            let mut state = self.0.lock();
            match state.value.take() {
                Some(value) => Poll::Ready(Ok(value)),
                None if state.sender_gone => Poll::Ready(Err(Gone)),
                None => {
                    state.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            let mut state = self.0.lock();
            state.receiver_gone = true;
            let unread = state.value.take();
            // Dropping a value may take locks of its own.
            drop(state);
            drop(unread);
        }
    }
}
