//! Layer 4: the loops. Each is a folder of five steps: observe reads, plan is
//! pure, apply writes, report writes status, and `mod` says in which order.

pub mod policy;

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Why a loop is over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses signal handlers.
    #[error("cannot wait for signals: {0}")]
    Signals(#[from] io::Error),
    /// It ended by itself, which it never should.
    #[error("the watches have ended")]
    Ended,
}

/// Runs a loop until the process is asked to stop. Whatever is in flight is dropped: every write is one request,
/// and the next start goes on from what is stored.
pub async fn until_stopped(work: impl Future<Output = ()>) -> Result<(), Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        () = work => Err(Error::Ended),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
