//! One child process: its log, its signals, its end.
//!
//! Input: a command from the [`Lifeline`]. Output: [`Process`], ended when dropped.
//! Must not: signal anything but the process group it started itself.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, kill_process, kill_process_group};

pub use rustix::process::Signal;

use super::lifeline::Lifeline;

/// A running (or ended) child. Standard output and standard error go to one log file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `program`. `env` is added to an empty environment if `clean`, else to ours.
    pub fn start<S: AsRef<OsStr>>(
        lifeline: &Lifeline,
        name: &str,
        program: &Path,
        args: &[S],
        env: &[(&str, &str)],
        clean: bool,
    ) -> Result<Self> {
        let logs = lifeline.dir().join("logs");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log)?;
        let mut command = lifeline.command(program, args)?;
        if clean {
            // Above all no HTTPS_PROXY: the API server would send its webhook calls there.
            command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        }
        command.envs(env.iter().copied()).stdout(out.try_clone()?).stderr(out);
        let child =
            command.spawn().with_context(|| format!("cannot start {name} ({})", program.display()))?;
        let pid = Pid::from_child(&child);
        Ok(Self { name: name.to_owned(), child, pid, log, ended: None })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the program itself, not of a shell around it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log_file(&self) -> &Path {
        &self.log
    }

    /// Everything that the program has printed so far.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// The last lines of the log, for an error message.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n");
        format!("--- end of the log of {} ---\n{tail}\n---", self.name)
    }

    /// Asks until the program is ready; its end, or the limit, is an error with the end of its log.
    pub async fn ready(&mut self, limit: Duration, is_ready: impl AsyncFn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !is_ready().await {
            if let Some(status) = self.status()? {
                bail!("{} ended with {status}\n{}", self.name, self.log_tail());
            }
            if start.elapsed() > limit {
                bail!("{} is not ready after {limit:?}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Ok(())
    }

    /// Waits until the log holds `text`; fails at once when the program ends without it.
    pub async fn wait_for_log(&mut self, text: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let ended = self.status()?;
            if self.log().contains(text) {
                return Ok(());
            }
            if let Some(status) = ended {
                bail!("{} ended ({status}) before it said {text:?}\n{}", self.name, self.log_tail());
            }
            if start.elapsed() > limit {
                bail!("{} did not say {text:?} within {limit:?}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// How it ended, or `None` while it runs.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            // The group must be dealt with before its leader is reaped, or its number could be in other hands;
            // the watcher in it makes that impossible, and here is the end of the watcher.
            self.ended = self.child.try_wait()?;
            if self.ended.is_some() {
                let _ = kill_process_group(self.pid, Signal::KILL);
            }
        }
        Ok(self.ended)
    }

    /// Sends a signal to the program, unless it has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.status()?.is_none() {
            kill_process(self.pid, signal).with_context(|| format!("cannot signal {}", self.name))?;
        }
        Ok(())
    }

    /// SIGTERM, and after `grace` SIGKILL. The status tells which of the two it was.
    pub async fn stop(&mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        match self.wait(grace).await {
            Ok(status) => Ok(status),
            Err(_) => self.kill(),
        }
    }

    /// Waits for the end that the program comes to by itself.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                bail!("{} still runs after {limit:?}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// SIGKILL to the program and whatever it started in its group.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        let status = self.child.wait()?;
        self.ended = Some(status);
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
