//! Steps that a person can follow and repeat.
//!
//! Input: real commands and what they should say. Output: title, command line as one would type it, what the
//! program really printed, and in the end whether every step went as told.
//! Must not: print anything that was not run.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;

use anyhow::{Result, bail};

use super::control_plane::ControlPlane;
use super::kubectl::Output;

/// How a step should go.
#[derive(Clone, Copy, Debug)]
pub enum Expect<'a> {
    /// The program succeeds.
    Success,
    /// The program succeeds and prints this.
    Says(&'a str),
    /// The program fails and prints this.
    Refused(&'a str),
}

/// Prints the steps as they happen and remembers which did not go as told.
#[derive(Debug)]
pub struct Tour<'p> {
    plane: &'p ControlPlane,
    step: usize,
    wrong: Vec<String>,
    colour: bool,
}

impl<'p> Tour<'p> {
    pub fn new(plane: &'p ControlPlane) -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { plane, step: 0, wrong: Vec::new(), colour }
    }

    /// Begins a step: one sentence that says what is going to be seen.
    pub fn step(&mut self, title: &str) -> Result<()> {
        self.step += 1;
        let (bold, plain) = self.paint("\x1b[1m");
        print(&format!("\n{bold}{}. {title}{plain}\n", self.step))
    }

    /// A remark between command and output.
    pub fn note(&self, text: &str) -> Result<()> {
        let (grey, plain) = self.paint("\x1b[2m");
        print(&format!("{grey}   {text}{plain}\n"))
    }

    /// `kubectl` as the administrator (the kubeconfig that the person is given in the end), often with `--as`.
    pub async fn kubectl(&mut self, args: &[&str], expect: Expect<'_>) -> Result<Output> {
        self.kubectl_with(args, "", expect).await
    }

    /// The same with `input` on standard input, printed as a here-document.
    pub async fn kubectl_with(&mut self, args: &[&str], input: &str, expect: Expect<'_>) -> Result<Output> {
        let program = self.plane.kubectl_path().to_owned();
        self.command("kubectl", &program, args, input, expect).await
    }

    /// Another program under the name that a person would type.
    pub async fn command(
        &mut self,
        name: &str,
        program: &Path,
        args: &[&str],
        input: &str,
        expect: Expect<'_>,
    ) -> Result<Output> {
        let line = command_line(name, args, input);
        let (cyan, plain) = self.paint("\x1b[36m");
        print(&format!("{cyan}$ {line}{plain}\n"))?;
        let kubeconfig = self.plane.admin_kubeconfig();
        let output = self.plane.run(program.to_owned(), &kubeconfig, args, input).await?;
        let text = output.text();
        print(&text)?;
        if !text.is_empty() && !text.ends_with('\n') {
            print("\n")?;
        }
        if let Some(wrong) = mismatch(&output, expect) {
            self.fail(&wrong)?;
        }
        Ok(output)
    }

    /// Checks something that no single command shows.
    pub fn check(&mut self, what: &str, holds: bool) -> Result<()> {
        if holds { self.note(what) } else { self.fail(&format!("not so: {what}")) }
    }

    /// An error if any step went otherwise than told.
    pub fn finish(self) -> Result<()> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        bail!("not as told:\n{}", self.wrong.join("\n"));
    }

    fn fail(&mut self, wrong: &str) -> Result<()> {
        self.wrong.push(format!("step {}: {wrong}", self.step));
        let (red, plain) = self.paint("\x1b[31m");
        print(&format!("{red}   {wrong}{plain}\n"))
    }

    fn paint(&self, code: &'static str) -> (&'static str, &'static str) {
        if self.colour { (code, "\x1b[0m") } else { ("", "") }
    }
}

fn mismatch(output: &Output, expect: Expect<'_>) -> Option<String> {
    let (succeed, text) = match expect {
        Expect::Success => (true, ""),
        Expect::Says(text) => (true, text),
        Expect::Refused(text) => (false, text),
    };
    if output.success != succeed {
        let wanted = if succeed { "succeed" } else { "be refused" };
        return Some(format!("this should {wanted}, and ended with {}", output.code));
    }
    (!output.text().contains(text)).then(|| format!("this should say: {text}"))
}

/// The command as one would type it into a POSIX shell.
fn command_line(name: &str, args: &[&str], input: &str) -> String {
    let mut line = name.to_owned();
    for arg in args {
        let _ = write!(line, " {}", quoted(arg));
    }
    if !input.is_empty() {
        let _ = write!(line, " <<'END'\n{}\nEND", input.trim_matches('\n'));
    }
    line
}

fn quoted(arg: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !arg.is_empty() && arg.chars().all(harmless) {
        arg.to_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

/// A reader that has seen enough (`| head`) closes the pipe: an error to pass on, not a panic.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
