//! structured-merge-diff itself, as a program to ask.
//!
//! Input: the package `oracle` in the Go module of the control plane, so that the version is the one that the
//! module selects; a question as JSON. Output: its answer.
//! Must not: know what is asked, or build what is in the cache already.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::binaries::{Fnv, Release, SOURCES, cache_dir, say};
use super::go_build;

const PACKAGE: &str = "oracle";

/// A running oracle. It ends with its standard input.
pub struct Oracle {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The version of structured-merge-diff, for example `v6.4.2`.
    pub version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Greeting {
    structured_merge_diff: String,
}

impl Oracle {
    /// Starts the oracle, building it first where necessary.
    pub fn start() -> Result<Self> {
        let mut child = Command::new(program()?).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the oracle has no output")?);
        let mut oracle = Self { child, questions, answers, version: String::new() };
        oracle.version = oracle.answer::<Greeting>()?.structured_merge_diff;
        Ok(oracle)
    }

    /// Asks one question, in JSON.
    pub fn ask<A: DeserializeOwned>(&mut self, question: &str) -> Result<A> {
        let to = self.questions.as_mut().context("the oracle has no input")?;
        to.write_all(question.as_bytes())?;
        to.write_all(b"\n")?;
        to.flush()?;
        self.answer()
    }

    fn answer<A: DeserializeOwned>(&mut self) -> Result<A> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "the oracle has ended: {:?}", self.child.try_wait());
        serde_json::from_str(&line).with_context(|| format!("the oracle says {line}"))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.questions.take());
        let _ = self.child.wait();
    }
}

fn program() -> Result<PathBuf> {
    let release = Release::chosen()?;
    let dir = cache_dir()?.join(format!("{PACKAGE}-{}-{:016x}", release.version, key(&release)?));
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let program = dir.join(PACKAGE);
    let lock = File::create(dir.join("build.lock"))?;
    if lock.try_lock().is_err() {
        say("another process is building the oracle; waiting for it");
        lock.lock()?;
    }
    if !program.exists() {
        let unfinished = dir.join(format!("{PACKAGE}.new"));
        let what = format!("structured-merge-diff of Kubernetes {} as a program", release.version);
        go_build::build_package(&release, &format!("./{PACKAGE}"), &what, "3 minutes", &unfinished)?;
        fs::rename(&unfinished, &program)?;
    }
    Ok(program)
}

/// Changes with everything that the oracle is made from, except the Go compiler.
fn key(release: &Release) -> Result<u64> {
    let module = Path::new(SOURCES);
    let mut files =
        vec![module.join(&release.mod_file), module.join(release.mod_file.replace(".mod", ".sum"))];
    for entry in fs::read_dir(module.join(PACKAGE))? {
        files.push(entry?.path());
    }
    files.sort();
    let mut hash = Fnv::new();
    hash.add(std::env::consts::OS.as_bytes());
    hash.add(std::env::consts::ARCH.as_bytes());
    for file in files {
        hash.add(&fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(hash.0)
}
