//! Waiting for something to become true; free ports and plain HTTP on loopback.
//!
//! Input: a question that is asked again and again. Output: its answer, or an error that names what was awaited.
//! Must not: wait without a limit, or sleep a fixed time in the hope that it is enough.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

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

/// Status and body of a plain GET on loopback: `/readyz`, `/metrics`.
pub async fn get(port: u16, path: &str) -> Result<(u16, String)> {
    // HTTP/1.0: the answer ends with the connection, and is never in chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n");
    let answer = tokio::task::spawn_blocking(move || -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    })
    .await??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no HTTP status")?;
    Ok((status, body.to_owned()))
}
