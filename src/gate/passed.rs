//! The answer to a request that was passed on: its end is the end of the request, and of its audit record.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use super::visit::Ledger;
use crate::listen::Reply;

/// The body of such an answer. Dropped before its end it is one whose client left.
struct Passed {
    body: Reply,
    ledger: Option<Ledger>,
}

/// The same body, with which `ledger` is closed.
pub(super) fn recorded(body: Reply, ledger: Ledger) -> Reply {
    let mut passed = Passed { body, ledger: Some(ledger) };
    passed.close_at_end();
    Reply::Stream(passed.boxed_unsync())
}

impl Passed {
    fn close(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            ledger.finish();
        }
    }

    /// A body that says that it is at its end is not asked again.
    fn close_at_end(&mut self) {
        if self.body.is_end_stream() {
            self.close();
        }
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            return Poll::Pending;
        };
        match &frame {
            Some(Ok(_)) => this.close_at_end(),
            None => this.close(),
            Some(Err(_)) => {
                if let Some(ledger) = this.ledger.take() {
                    ledger.break_off();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
