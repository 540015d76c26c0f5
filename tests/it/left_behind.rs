//! Nothing of a control plane survives its owner, however the owner ends.
//!
//! The owner is this test binary, started again with only [`owner`] to run.

use std::fs::File;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

use crate::harness::{ControlPlane, Options, eventually};

const REPORT_TO: &str = "FIELDKEEPER_TEST_REPORT_TO";
const THEN: &str = "FIELDKEEPER_TEST_THEN";

#[tokio::test]
async fn nothing_is_left_behind_after_drop() {
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    let dir = plane.dir().to_owned();
    assert!(mentioning(&dir) >= 2, "etcd and kube-apiserver run");
    drop(plane);
    assert!(!dir.exists());
    assert_eq!(mentioning(&dir), 0);
}

#[tokio::test]
async fn nothing_is_left_behind_after_a_panic() {
    let (mut owner, dir) = start_owner("panic").await;
    let status = end_of(&mut owner).await;
    assert!(!status.success());
    assert_nothing_left(&dir).await;
}

#[tokio::test]
async fn nothing_is_left_behind_when_the_process_exits_without_dropping_anything() {
    let (mut owner, dir) = start_owner("exit").await;
    end_of(&mut owner).await;
    assert_nothing_left(&dir).await;
}

#[tokio::test]
async fn nothing_is_left_behind_after_ctrl_c_or_sigterm() {
    for signal in ["INT", "TERM"] {
        let (mut owner, dir) = start_owner("wait").await;
        let pid = owner.id().to_string();
        Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        end_of(&mut owner).await;
        assert_nothing_left(&dir).await;
    }
}

#[tokio::test]
async fn nothing_is_left_behind_after_kill_9() {
    let (mut owner, dir) = start_owner("wait").await;
    owner.kill().unwrap();
    end_of(&mut owner).await;
    assert_nothing_left(&dir).await;
}

#[tokio::test]
async fn the_folder_of_an_owner_that_could_not_clean_up_is_removed_by_the_next_start() {
    let folder = |name| tempfile::Builder::new().prefix(name).tempdir().unwrap();
    let (stale, owned, foreign) = (folder("fieldkeeper-"), folder("fieldkeeper-"), folder("somebody-else-"));
    let lock = |dir: &Path| {
        let file = File::create(dir.join("owner.lock")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
        file
    };
    for dir in [&stale, &foreign] {
        drop(lock(dir.path()));
    }
    let held = lock(owned.path());
    held.lock().unwrap();
    let _plane = ControlPlane::start(Options::api_only()).await.unwrap();
    assert!(!stale.path().exists());
    assert!(owned.path().exists());
    assert!(foreign.path().exists());
}

#[tokio::test]
#[ignore = "not a test: the owner that the tests above start and end"]
async fn owner() {
    let Some(report) = std::env::var_os(REPORT_TO) else { return };
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    std::fs::write(report, format!("{}\n", plane.dir().display())).unwrap();
    match std::env::var(THEN).unwrap().as_str() {
        "panic" => panic!("as told"),
        "exit" => std::process::exit(0),
        _ => std::future::pending::<()>().await,
    }
}

async fn start_owner(then: &str) -> (Child, PathBuf) {
    // A build of the programs, which may take minutes, is not this test's to wait for.
    ControlPlane::shared().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    // What a shell starts in the background ignores Ctrl-C, and so does all that it starts: an owner of its own does not.
    let owner = Command::new("env")
        .args(["--default-signal=INT"])
        .arg(std::env::current_exe().unwrap())
        .args(["left_behind::owner", "--exact", "--ignored"])
        .env(REPORT_TO, &report)
        .env(THEN, then)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let dir = eventually("the owner's control plane", Duration::from_secs(90), || async {
        let text = std::fs::read_to_string(&report).ok()?;
        text.strip_suffix('\n').map(PathBuf::from)
    })
    .await
    .unwrap();
    (owner, dir)
}

/// Waits for the owner's end. One that does not end fails the test, and is ended.
async fn end_of(owner: &mut Child) -> ExitStatus {
    let ended =
        eventually("the owner's end", Duration::from_secs(15), || ready(owner.try_wait().unwrap())).await;
    if ended.is_err() {
        owner.kill().unwrap();
    }
    ended.unwrap()
}

async fn assert_nothing_left(dir: &Path) {
    let gone = eventually("the end of everything", Duration::from_secs(15), || async {
        (mentioning(dir) == 0 && !dir.exists()).then_some(())
    });
    gone.await.unwrap();
}

/// How many living processes name the folder in their command line, as etcd, kube-apiserver and the janitor do.
/// One that has ended and only waits to be noticed by its parent is none.
fn mentioning(dir: &Path) -> usize {
    let output = Command::new("ps").args(["-A", "-o", "stat=,args="]).output().unwrap();
    let dir = dir.to_str().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.contains(dir) && !line.trim_start().starts_with('Z')).count()
}
