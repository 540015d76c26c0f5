//! Builds programs of the control plane's module with Go and tells how far it is.
//!
//! Input: a release. Output: one program in the file that the caller names.
//! Must not: be silent for longer than ten seconds; a first build takes many minutes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::binaries::{Release, SOURCES, say};
use super::lifeline::Lifeline;

const REPORT: Duration = Duration::from_secs(10);

/// Without the version the server says v0.0.0 and chooses its feature gates by that.
pub fn link_flags(version: &str) -> String {
    let minor = version.split('.').nth(1).unwrap_or_default();
    let stamp = "-X k8s.io/component-base/version.git";
    format!(
        "-s -w {stamp}Version=v{version} {stamp}Major=1 {stamp}Minor={minor} -X k8s.io/client-go/pkg/version.gitVersion=v{version}"
    )
}

/// Builds into `output`. Nothing but `output` and Go's own caches is written.
pub fn build(release: &Release, output: &Path) -> Result<()> {
    let version = &release.version;
    let what = format!("the Kubernetes {version} control plane");
    build_package(release, ".", &what, "11 minutes", output)
}

/// Builds one package of the module; `time` is what it takes when nothing is there yet.
pub fn build_package(release: &Release, package: &str, what: &str, time: &str, output: &Path) -> Result<()> {
    check_go(release)?;
    let packages = count_packages(release, package);
    say(&format!("building {what} from Go modules, once; the first time this takes about {time} on 2 cores"));
    let start = Instant::now();
    // On the lifeline, so that an interrupted test does not leave a compiler behind.
    let lifeline = Lifeline::new()?;
    let mut build = lifeline.command(Path::new("go"), ["build", &mod_flag(release)])?;
    in_sources(&mut build);
    let mut build = build
        .args(["-v", "-trimpath", "-buildvcs=false", "-ldflags", &link_flags(&release.version)])
        .arg("-o")
        .arg(output)
        .arg(package)
        .env("GOTMPDIR", lifeline.dir())
        .stderr(Stdio::piped())
        .spawn()?;
    let seen = build.stderr.take().map(|stderr| watch(stderr, start, packages));
    finish(build, seen.unwrap_or_default(), start, what)
}

fn finish(mut build: Child, seen: Vec<String>, start: Instant, what: &str) -> Result<()> {
    let status = build.wait()?;
    if !status.success() {
        // Go prints the packages that it compiles and the errors to the same place; a package has no space.
        let errors: Vec<String> = seen.into_iter().filter(|line| line.contains(' ')).collect();
        let from = errors.len().saturating_sub(40);
        bail!("go build ended with {status}\n{}", errors.get(from..).unwrap_or_default().join("\n"));
    }
    say(&format!("{what} is built ({})", elapsed(start)));
    Ok(())
}

/// Reads what Go prints and reports every ten seconds, also while Go prints nothing.
fn watch(stderr: ChildStderr, start: Instant, packages: Option<usize>) -> Vec<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut seen = Vec::new();
    let mut next = start + REPORT;
    loop {
        match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                if line.starts_with("go: downloading ") && seen.is_empty() {
                    say("downloading modules");
                }
                seen.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {
                let compiled = seen.iter().filter(|line| !line.contains(' ')).count();
                let all = packages.map(|n| format!(" of at most {n}")).unwrap_or_default();
                say(&format!("… {}, {compiled}{all} packages compiled", elapsed(start)));
                next += REPORT;
            }
            Err(RecvTimeoutError::Disconnected) => return seen,
        }
    }
}

fn go(release: &Release, command: &str) -> Command {
    let mut go = Command::new("go");
    go.arg(command).arg(mod_flag(release)).stdin(Stdio::null());
    in_sources(&mut go);
    go
}

fn mod_flag(release: &Release) -> String {
    format!("-modfile={}", release.mod_file)
}

fn in_sources(go: &mut Command) {
    go.current_dir(SOURCES).env("CGO_ENABLED", "0").env("GOWORK", "off").stdout(Stdio::null());
}

/// A progress figure only: when Go cannot tell, the build goes on without it.
fn count_packages(release: &Release, package: &str) -> Option<usize> {
    let output = go(release, "list")
        .args(["-deps", package])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).lines().count())
}

fn check_go(release: &Release) -> Result<()> {
    let path = Path::new(SOURCES).join(&release.mod_file);
    let text = std::fs::read_to_string(&path)?;
    let needed = text.lines().find_map(|l| l.strip_prefix("go ")).unwrap_or_default().trim().to_owned();
    let hint = format!(
        "the control plane is built with Go {needed} or newer (https://go.dev/dl); or point KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl"
    );
    // Run in the module's folder: a Go that can fetch the wanted toolchain does so here and answers with that.
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .env("GOWORK", "off")
        .current_dir(SOURCES)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("Go is missing: {hint}"))?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || numbers(&found) < numbers(&needed) {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("Go is too old ({found}{said}): {hint}");
    }
    Ok(())
}

/// `go1.26.8` and `1.26` as something that can be compared.
fn numbers(version: &str) -> Vec<u32> {
    version.trim_start_matches("go").split('.').map_while(|part| part.parse().ok()).collect()
}

fn elapsed(start: Instant) -> String {
    let seconds = start.elapsed().as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}
