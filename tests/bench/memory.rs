//! What the webhook holds in memory: idle, and after ten thousand reviews.
//!
//! Input: the shipped installation in a real control plane, reviews of 34 kB sent to its port by TLS and HTTP/1.1 as
//! the API server does. Output: the resident memory of the process, and a failure where it is above its bound.

#![allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark stops at the first surprise"
)]

#[path = "../harness/mod.rs"]
mod harness;
mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use harness::{ControlPlane, Options, repository};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const REVIEWS: usize = 10_000;
const SIZE: usize = 34_000;
const IDLE_BOUND: u64 = 20_000;
const BOUND: u64 = 25_000;

#[tokio::main]
async fn main() -> ExitCode {
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    let fieldkeeper = plane.install_fieldkeeper().await.unwrap();
    let policy = std::fs::read_to_string(repository("deploy/samples/nodepools-policy.yaml")).unwrap();
    plane.apply(&policy).await.unwrap();
    fieldkeeper.registered(&plane, "nodepools").await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let pid = fieldkeeper.webhook.pid();
    let idle = resident(pid);

    let body = support::review(&support::pool_for_body(SIZE), support::Change::Own);
    let mut stream = connect(&fieldkeeper.endpoint.ca_bundle, fieldkeeper.endpoint.port).await;
    let head = format!(
        "POST /validate?timeout=3s HTTP/1.1\r\nHost: fieldkeeper.fieldkeeper-system.svc\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let request = [head.as_bytes(), &body].concat();
    for _ in 0..REVIEWS {
        stream.write_all(&request).await.unwrap();
        let answer = answer(&mut stream).await;
        assert!(answer.contains("\"allowed\":true"), "{answer}");
    }
    let after = resident(pid);
    println!(
        "resident memory of the webhook: idle {:.1} MB (bound {:.0}), after {REVIEWS} reviews of {} bytes {:.1} MB (bound {:.0})",
        mb(idle),
        mb(IDLE_BOUND),
        body.len(),
        mb(after),
        mb(BOUND)
    );
    if idle < IDLE_BOUND && after < BOUND { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn mb(kilobytes: u64) -> f64 {
    kilobytes as f64 / 1000.0
}

/// `VmRSS` in kilobytes of 1,024 bytes, as the kernel counts them, made to 1,000.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024 / 1000
}

async fn connect(authority: &str, port: u16) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("fieldkeeper.fieldkeeper-system.svc").unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// The body of one answer.
async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    let (mut read, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        let count = stream.read(&mut chunk).await.unwrap();
        assert!(count > 0, "the webhook has closed the connection");
        read.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&read);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        if body.len() >= length.unwrap().trim().parse().unwrap() {
            return body.to_owned();
        }
    }
}
