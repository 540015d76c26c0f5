//! Reading a request body within limits of size, time and memory.
//!
//! Input: a body of unknown size from a client of unknown intent. Output: its bytes, together with
//! the share of the memory budget that they occupy. A byte is paid for when it arrives, not when it
//! is announced, so that nobody reserves memory by a header.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The largest body. A stored object is at most about 1.5 MB and a request 3 MB; a review carries
/// two of them, and escapes may swell their text.
pub const MAX_BODY: usize = 10 * 1024 * 1024;

/// Bodies in memory at once. Six of the largest, or thousands of ordinary ones; together with the
/// trees of the two large reviews that are judged at once this stays below a 512 MiB limit.
pub const BODY_BUDGET: usize = 64 * 1024 * 1024;

/// The whole body has to be there by then: the API server gives up on a webhook within seconds.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a body waits for others to leave memory. Later than that the client is told to come back.
const BUDGET_WAIT: Duration = Duration::from_secs(1);

/// What is set aside at first, whatever length is announced.
const FIRST_CAPACITY: usize = 64 * 1024;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Longer than [`MAX_BODY`].
    #[error("the body is larger than {MAX_BODY} bytes")]
    TooLarge,
    /// It did not arrive in time.
    #[error("the body did not arrive within {} s", BODY_TIMEOUT.as_secs())]
    TooSlow,
    /// Too much is being read already.
    #[error("too many reviews at once")]
    Busy,
    /// The connection or its framing broke.
    #[error("the body ended early or is badly framed")]
    Broken,
}

/// The memory that bodies may take. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes: Arc<Semaphore>,
    used: Gauge,
}

/// A body and its share of the budget, given back when this is dropped.
#[derive(Debug)]
pub struct HeldBody {
    /// The bytes.
    pub bytes: Bytes,
    _share: Share,
}

#[derive(Debug)]
struct Share {
    permit: Option<OwnedSemaphorePermit>,
    size: i64,
    used: Gauge,
}

impl Budget {
    /// A budget of so many bytes, shown on a gauge.
    #[must_use]
    pub fn new(bytes: usize, used: Gauge) -> Self {
        Self { bytes: Arc::new(Semaphore::new(bytes)), used }
    }

    /// Reads a body whose length may have been announced.
    pub async fn read<B>(&self, body: B, announced: Option<u64>) -> Result<HeldBody, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let announced = announced.map(usize::try_from);
        let capacity = match announced {
            Some(Ok(length)) if length <= MAX_BODY => length.min(FIRST_CAPACITY),
            Some(_) => return Err(BodyError::TooLarge),
            None => 0,
        };
        timeout(BODY_TIMEOUT, self.collect(body, capacity)).await.unwrap_or(Err(BodyError::TooSlow))
    }

    async fn collect<B>(&self, mut body: B, capacity: usize) -> Result<HeldBody, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let mut bytes = Vec::with_capacity(capacity);
        let mut share = Share { permit: None, size: 0, used: self.used.clone() };
        while let Some(frame) = body.frame().await {
            // Trailers say nothing of interest; hyper bounds them.
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            if bytes.len().saturating_add(data.len()) > MAX_BODY {
                return Err(BodyError::TooLarge);
            }
            share.grow(&self.bytes, data.len()).await?;
            bytes.extend_from_slice(&data);
        }
        Ok(HeldBody { bytes: Bytes::from(bytes), _share: share })
    }
}

impl Share {
    async fn grow(&mut self, budget: &Arc<Semaphore>, size: usize) -> Result<(), BodyError> {
        let permits = u32::try_from(size).map_err(|_| BodyError::TooLarge)?;
        // Nearly always there is room, and no clock is needed.
        let more = if let Ok(more) = Arc::clone(budget).try_acquire_many_owned(permits) {
            more
        } else {
            let wanted = Arc::clone(budget).acquire_many_owned(permits);
            let Ok(Ok(more)) = timeout(BUDGET_WAIT, wanted).await else { return Err(BodyError::Busy) };
            more
        };
        match &mut self.permit {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        self.size += i64::from(permits);
        self.used.inc_by(i64::from(permits));
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.dec_by(self.size);
    }
}
