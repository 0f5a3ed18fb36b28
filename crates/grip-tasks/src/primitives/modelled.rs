//! Loom's forms of the names in [`super`].

pub(crate) use loom::sync::Arc;

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

/// A bounded queue that keeps the promises of tokio's: a place that was reserved may be filled after
/// the queue was closed, and what was sent comes out before the end does.
pub(crate) mod mpsc {
    use std::{
        collections::VecDeque,
        future::poll_fn,
        task::{Poll, Waker},
    };

    use super::{Arc, Mutex};

    pub(crate) mod error {
        #[derive(Debug)]
        pub(crate) enum TrySendError<T> {
            Full(T),
            Closed(T),
        }
    }

    struct State<T> {
        queue: VecDeque<T>,
        reserved: usize,
        capacity: usize,
        is_closed: bool,
        waker: Option<Waker>,
    }

    type Shared<T> = Arc<Mutex<State<T>>>;

    pub(crate) struct Sender<T>(Shared<T>);
    pub(crate) struct Receiver<T>(Shared<T>);
    pub(crate) struct Permit<'a, T>(&'a Shared<T>);

    pub(crate) fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let state = State {
            queue: VecDeque::new(),
            reserved: 0,
            capacity,
            is_closed: false,
            waker: None,
        };
        let shared = Arc::new(Mutex::new(state));
        (Sender(Arc::clone(&shared)), Receiver(shared))
    }

    impl<T> Sender<T> {
        pub(crate) fn try_reserve(&self) -> Result<Permit<'_, T>, error::TrySendError<()>> {
            let mut state = self.0.lock();
            if state.is_closed {
                return Err(error::TrySendError::Closed(()));
            }
            if state.queue.len() + state.reserved >= state.capacity {
                return Err(error::TrySendError::Full(()));
            }
            state.reserved += 1;
            Ok(Permit(&self.0))
        }

        pub(crate) fn max_capacity(&self) -> usize {
            self.0.lock().capacity
        }

        pub(crate) fn capacity(&self) -> usize {
            let state = self.0.lock();
            state.capacity - state.queue.len() - state.reserved
        }
    }

    impl<T> Permit<'_, T> {
        pub(crate) fn send(self, value: T) {
            let mut state = self.0.lock();
            state.reserved -= 1;
            state.queue.push_back(value);
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    impl<T> Receiver<T> {
        pub(crate) async fn recv(&mut self) -> Option<T> {
            poll_fn(|cx| {
                let mut state = self.0.lock();
                match state.queue.pop_front() {
                    Some(value) => Poll::Ready(Some(value)),
                    None if state.is_closed && state.reserved == 0 => Poll::Ready(None),
                    None => {
                        state.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await
        }

        pub(crate) fn close(&mut self) {
            self.0.lock().is_closed = true;
        }
    }
}

/// A value that others wait for, with the promises of tokio's: nobody who waits misses a value that
/// was set, and all of them notice that its sender is gone.
pub(crate) mod watch {
    use std::{
        future::poll_fn,
        task::{Poll, Waker},
    };

    use super::{Arc, Mutex};

    struct State<T> {
        value: T,
        sender_gone: bool,
        wakers: Vec<Waker>,
    }

    type Shared<T> = Arc<Mutex<State<T>>>;

    pub(crate) struct Sender<T>(Shared<T>);
    pub(crate) struct Receiver<T>(Shared<T>);

    #[derive(Debug)]
    pub(crate) struct Gone;

    pub(crate) fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
        let state = State {
            value,
            sender_gone: false,
            wakers: Vec::new(),
        };
        let shared = Arc::new(Mutex::new(state));
        (Sender(Arc::clone(&shared)), Receiver(shared))
    }

    impl<T> Sender<T> {
        pub(crate) fn send_replace(&self, value: T) -> T {
            self.change(|state| std::mem::replace(&mut state.value, value))
        }

        fn change<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
            let mut state = self.0.lock();
            let changed = change(&mut state);
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            changed
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.change(|state| state.sender_gone = true);
        }
    }

    impl<T> Clone for Receiver<T> {
        fn clone(&self) -> Self {
            Self(Arc::clone(&self.0))
        }
    }

    impl<T: Clone> Receiver<T> {
        pub(crate) async fn wait_for(
            &mut self,
            is_wanted: impl Fn(&T) -> bool,
        ) -> Result<Box<T>, Gone> {
            poll_fn(|cx| {
                let mut state = self.0.lock();
                if is_wanted(&state.value) {
                    return Poll::Ready(Ok(Box::new(state.value.clone())));
                }
                if state.sender_gone {
                    return Poll::Ready(Err(Gone));
                }
                state.wakers.push(cx.waker().clone());
                Poll::Pending
            })
            .await
        }
    }
}
