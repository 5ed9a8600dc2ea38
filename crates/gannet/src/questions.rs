//! Questions to cores from other threads.
//!
//! Most numbers are atomics that a reader reads. Others are in cells of their core, which publishes them when it is
//! asked: a core that does not answer within [`ANSWER_MAX`] is stuck.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How long a core may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Readers that may wait for a core at a time.
const READERS_MAX: usize = 16;

/// A question to a core; answered by the end of the channel.
struct Question<Q> {
    asked: Q,
    answer: oneshot::Sender<()>,
}

/// The questions to one core.
pub(crate) struct Questions<Q> {
    outbox: mpsc::Sender<Question<Q>>,
    inbox: Mutex<Option<mpsc::Receiver<Question<Q>>>>,
}

impl<Q> Questions<Q> {
    pub(crate) fn new() -> Questions<Q> {
        let (outbox, inbox) = mpsc::channel(READERS_MAX);
        Questions {
            outbox,
            inbox: Mutex::new(Some(inbox)),
        }
    }

    /// Has `handle` do what is asked, on the core; ends with the task that awaits it.
    pub(crate) async fn answer(&self, handle: impl Fn(Q)) {
        let inbox = self
            .inbox
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut inbox) = inbox else { return };
        while let Some(Question { asked, answer }) = inbox.recv().await {
            handle(asked);
            // The reader may have gone.
            let _ = answer.send(());
        }
    }

    /// Asks the core. The answer has no value: its end, too, tells that the core's numbers are published, because a
    /// core does so for the last time when it ends. `None` while many readers wait for it.
    fn ask(&self, asked: Q) -> Option<oneshot::Receiver<()>> {
        let (sender, answer) = oneshot::channel();
        let question = Question {
            asked,
            answer: sender,
        };
        match self.outbox.try_send(question) {
            // Where the core has ended, this drops the question.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Some(answer),
            Err(mpsc::error::TrySendError::Full(_)) => None,
        }
    }
}

/// Asks all cores the same; those that do not answer within [`ANSWER_MAX`].
pub(crate) async fn ask_all<Q: Clone>(cores: &[&Questions<Q>], asked: &Q) -> Vec<usize> {
    let until = tokio::time::Instant::now() + ANSWER_MAX;
    let answers: Vec<_> = cores.iter().map(|core| core.ask(asked.clone())).collect();
    let mut stuck = Vec::new();
    for (index, answer) in answers.into_iter().enumerate() {
        let answered = match answer {
            Some(answer) => tokio::time::timeout_at(until, answer).await.is_ok(),
            None => false,
        };
        if !answered {
            stuck.push(index);
        }
    }
    stuck
}
