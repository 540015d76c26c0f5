//! The threads of the admission port.
//!
//! Input: a listener and what answers. Output: one task for each thread, which ends when the thread does. Every thread
//! accepts connections and serves them itself: a review then wakes one thread and never a second one that looks for
//! something to do, which costs as much as deciding. What is not a connection does not belong here.

use std::io;
use std::thread;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::handle::LARGE_AT_ONCE;
use super::server::{Answer, Phase, Places, Transport, serve};

/// A review takes a fraction of a millisecond; a second thread is there for the time in which one is busy with some
/// hundred kilobytes or a handshake. Larger bodies are judged beside them.
const THREADS: usize = 2;

/// Serves `listener` on threads of its own; the tasks are added to `servers`.
pub(super) fn serve_on_threads(
    listener: TcpListener,
    transport: &Transport,
    answer: &impl Answer,
    phase: &watch::Receiver<Phase>,
    servers: &mut JoinSet<()>,
) -> io::Result<()> {
    let (listener, places) = (listener.into_std()?, Places::default());
    for number in 0..THREADS {
        let runtime =
            Builder::new_current_thread().max_blocking_threads(LARGE_AT_ONCE).enable_all().build()?;
        let listener = listener.try_clone()?;
        let (transport, answer) = (transport.clone(), answer.clone());
        let (phase, places) = (phase.clone(), places.clone());
        let (alive, ended) = oneshot::channel::<()>();
        thread::Builder::new().name(format!("admission-{number}")).spawn(move || {
            let _alive = alive;
            runtime.block_on(async move {
                match TcpListener::from_std(listener) {
                    Ok(listener) => serve(listener, transport, answer, phase, places).await,
                    Err(error) => tracing::error!(%error, "a thread cannot accept connections"),
                }
            });
        })?;
        servers.spawn(async move {
            // Nothing is ever sent: it ends when the thread drops its side, also by a panic.
            let _ = ended.await;
        });
    }
    Ok(())
}
