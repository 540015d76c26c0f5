//! On an in-memory stream and a clock that jumps, so that minutes pass at once.

use super::*;
use axum::Router;
use axum::routing::get;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::{sleep, timeout};

struct Client {
    stream: DuplexStream,
    phase: watch::Sender<Phase>,
    full: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
}

fn connect() -> Client {
    let (stream, far) = duplex(64 * 1024);
    let (phase, watched) = watch::channel(Phase::Serving);
    let full = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicUsize::new(0));
    let counted = {
        let served = Arc::clone(&served);
        move || {
            served.fetch_add(1, Ordering::Relaxed);
            async { "here\n" }
        }
    };
    let slow = get(async || sleep(Duration::from_secs(3)).await);
    let unread = counted.clone();
    let router = Router::new().route("/", get(counted).post(unread)).route("/slow", slow);
    let is_full = Arc::clone(&full);
    tokio::spawn(serve(far, router, watched, move || is_full.load(Ordering::Relaxed)));
    Client { stream, phase, full, served }
}

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

impl Client {
    /// The server may have hung up by then.
    async fn send(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
    }

    /// One answer whose body is `here\n`, or whatever is there.
    async fn answer(&mut self) -> String {
        let mut buffer = vec![0; 4096];
        let size = self.stream.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..size]).into_owned()
    }

    /// Everything until the server closes, and how long that took.
    async fn rest(&mut self) -> (String, Duration) {
        let start = Instant::now();
        let mut text = Vec::new();
        let _ = self.stream.read_to_end(&mut text).await;
        (String::from_utf8_lossy(&text).into_owned(), start.elapsed())
    }

    async fn is_open_after(&mut self, seconds: u64) -> bool {
        timeout(Duration::from_secs(seconds), self.stream.read_u8()).await.is_err()
    }
}

fn about(expected: u64, took: Duration) -> bool {
    (expected..=expected + 2).contains(&took.as_secs())
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_dropped() {
    let mut client = connect();
    let (text, took) = client.rest().await;
    assert!(text.is_empty() && about(5, took), "{text} {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_in_is_dropped() {
    let mut client = connect();
    let start = Instant::now();
    for byte in GET.as_bytes() {
        if client.stream.write_all(&[*byte]).await.is_err() {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert!(about(5, start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(client.served.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_later_request_has_the_same_limit() {
    let mut client = connect();
    client.send(GET).await;
    assert!(client.answer().await.ends_with("here\n"));
    assert!(client.is_open_after(60).await);
    client.send("GET / HT").await;
    let (_, took) = client.rest().await;
    assert!(about(5, took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_outlives_the_clients_own_limit() {
    let mut client = connect();
    client.send(GET).await;
    client.answer().await;
    assert!(client.is_open_after(100).await);
    client.send(GET).await;
    assert!(client.answer().await.ends_with("here\n"));
    let (_, took) = client.rest().await;
    assert!(about(120, took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_connections_make_room_when_it_is_full() {
    let mut client = connect();
    client.send(GET).await;
    client.answer().await;
    client.full.store(true, Ordering::Relaxed);
    let (_, took) = client.rest().await;
    assert!(about(5, took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn while_draining_answers_say_goodbye() {
    let mut client = connect();
    client.send(GET).await;
    assert!(!client.answer().await.contains("connection: close"));
    client.phase.send_replace(Phase::Draining);
    assert!(client.is_open_after(3).await);
    client.send(GET).await;
    let (text, _) = client.rest().await;
    assert!(text.contains("connection: close") && text.ends_with("here\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn closing_ends_idle_connections_and_finishes_requests() {
    let mut idle = connect();
    idle.send(GET).await;
    idle.answer().await;
    let mut busy = connect();
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    sleep(Duration::from_millis(10)).await;
    idle.phase.send_replace(Phase::Closing);
    busy.phase.send_replace(Phase::Closing);
    assert!(idle.rest().await.1 < Duration::from_secs(1));
    let (text, took) = busy.rest().await;
    assert!(text.starts_with("HTTP/1.1 200") && about(2, took), "{text} {took:?}");
}

/// Shapes in which one sender and one reader could disagree where a request ends.
#[tokio::test(start_paused = true)]
async fn no_second_request_is_smuggled_in() {
    let second = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let long = format!("x: {}\r\n", "a".repeat(100_000));
    let many = "x-a: 1\r\n".repeat(1000);
    let shapes = [
        "content-length: 3\r\ncontent-length: 40\r\n",
        "content-length: -1\r\n",
        "content-length: 1e3\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "transfer-encoding: gzip\r\n",
        "x: 1\r\n folded\r\n",
        "x y: 1\r\n",
        &long,
        &many,
    ];
    for headers in shapes {
        let mut client = connect();
        client.send(&format!("POST / HTTP/1.1\r\nhost: x\r\n{headers}\r\n{second}")).await;
        let (text, _) = client.rest().await;
        let short: String = headers.chars().take(40).collect();
        assert!(text.starts_with("HTTP/1.1 4"), "{short}: {text}");
        assert_eq!(client.served.load(Ordering::Relaxed), 0, "{short}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_read_is_no_request() {
    for sent in [GET.len(), GET.len() * 3000] {
        let mut client = connect();
        let body = GET.repeat(sent / GET.len());
        let request = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {sent}\r\n\r\n{body}");
        client.send(&request).await;
        let (text, _) = client.rest().await;
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        assert_eq!(client.served.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_win_over_a_length_or_the_request_is_refused() {
    let mut client = connect();
    client
        .send(
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        )
        .await;
    let (text, _) = client.rest().await;
    assert_eq!(text.matches("HTTP/1.1").count(), 1, "{text}");
}
