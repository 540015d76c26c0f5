//! One HTTP/1.1 connection, with patience that ends.
//!
//! hyper can bound the time for a request's head, but counts idle time between requests into it.
//! The two must differ: a head takes milliseconds, while a connection that the server closes first
//! may lose a request that is just being sent. So the clock is kept here: it looks at what is read
//! and at when requests begin and end.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// From the first byte of a head to its end; also from the connection to the first head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may wait for its next request: longer than the 90 seconds after which the
/// API server closes it, so that closing is always up to the client.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// The same while there is no room for new connections.
const IDLE_TIMEOUT_WHEN_FULL: Duration = Duration::from_secs(5);

/// How often the clock is looked at.
const TICK: Duration = Duration::from_secs(1);

/// The API server's requests have about six headers.
const MAX_HEADERS: usize = 64;

/// Room for a head, and for what is read of a body at once.
const MAX_BUFFER: usize = 64 * 1024;

/// What the process is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing special.
    Serving,
    /// It will stop soon: serve on, but ask clients to go elsewhere.
    Draining,
    /// Finish what has begun and accept nothing more.
    Closing,
}

/// What the client is doing.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Nothing, since then.
    Idle(Instant),
    /// Sending a head, since then.
    Head(Instant),
    /// Waiting for us, or sending a body, which has a limit of its own.
    Request,
}

#[derive(Clone, Debug)]
struct Clock(Arc<Mutex<Doing>>);

impl Clock {
    fn set(&self, doing: Doing) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }

    fn get(&self) -> Doing {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes_arrived(&self) {
        let mut doing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Doing::Idle(_) = *doing {
            *doing = Doing::Head(Instant::now());
        }
    }
}

/// What answers requests. It makes no errors: whatever goes wrong is an answer.
pub trait Answer: Clone + Send + Sync + 'static {
    /// Of the answers.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static;

    /// Answers one request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Serves requests until either side closes, patience ends, or `phase` says that it is over.
pub(super) async fn serve<S>(
    stream: S,
    answer: impl Answer,
    phase: watch::Receiver<Phase>,
    is_full: impl Fn() -> bool + Send + 'static,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let clock = Clock(Arc::new(Mutex::new(Doing::Head(Instant::now()))));
    let service = service_fn(|request: Request<Incoming>| {
        clock.set(Doing::Request);
        let (clock, phase, answer) = (clock.clone(), phase.clone(), answer.clone());
        async move {
            let mut response = answer.answer(request).await;
            // A client that is told so opens its next connection elsewhere.
            if *phase.borrow() != Phase::Serving {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            clock.set(Doing::Idle(Instant::now()));
            Ok::<_, Infallible>(response)
        }
    });
    let stream = Watched { stream, clock: clock.clone() };
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let (orders, mut ordered) = mpsc::channel(1);
    // A task of its own, so that what a request wakes is the connection and no clock. Ends with this one.
    let mut watcher = JoinSet::new();
    watcher.spawn(watch_over(clock.clone(), phase.clone(), is_full, orders));
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            order = ordered.recv() => match order {
                Some(Order::Finish) => connection.as_mut().graceful_shutdown(),
                Some(Order::Cut) | None => return,
            },
        }
    }
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// The answer that is being made is the last one.
    Finish,
    /// Nothing more.
    Cut,
}

/// Ends a connection whose client lets us wait, or that the process will not serve any longer.
async fn watch_over(
    clock: Clock,
    mut phase: watch::Receiver<Phase>,
    is_full: impl Fn() -> bool + Send,
    orders: mpsc::Sender<Order>,
) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut closing = false;
    loop {
        let order = tokio::select! {
            _ = phase.wait_for(|phase| *phase == Phase::Closing), if !closing => {
                closing = true;
                Some(Order::Finish)
            }
            now = ticks.tick() => {
                let idle_limit = if is_full() { IDLE_TIMEOUT_WHEN_FULL } else { IDLE_TIMEOUT };
                let over = match clock.get() {
                    Doing::Idle(since) => now.duration_since(since) > idle_limit,
                    Doing::Head(since) => now.duration_since(since) > HEAD_TIMEOUT,
                    Doing::Request => false,
                };
                over.then_some(Order::Cut)
            }
        };
        if let Some(order) = order
            && orders.send(order).await.is_err()
        {
            return;
        }
    }
}

/// A stream that tells the clock when something was read.
struct Watched<S> {
    stream: S,
    clock: Clock,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.clock.bytes_arrived();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }
}

#[cfg(test)]
mod tests;
