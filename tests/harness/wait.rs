//! Waiting for something to become true, and free ports.
//!
//! Input: a question that is asked again and again. Output: its answer, or an error that names what was awaited.
//! Must not: wait without a limit, or sleep a fixed time in the hope that it is enough.

use std::future::Future;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks until the answer is there; `what` completes the sentence "waited in vain for …".
pub async fn eventually<T, F, Fut>(what: &str, limit: Duration, mut ask: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        if start.elapsed() > limit {
            bail!("waited {limit:?} in vain for {what}");
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Ports on loopback that the system says are free. All are held until the last one is known, so that they differ.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
