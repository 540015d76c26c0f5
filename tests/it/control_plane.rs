//! The harness itself: what it promises to every other test.

use crate::harness::{ControlPlane, Options};

#[tokio::test]
async fn starts() {
    let plane = ControlPlane::start(Options::full()).await.unwrap();
    println!("{}", plane.kubectl(&["version"]).await.unwrap().text());
}
