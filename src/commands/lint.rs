//! `fieldkeeper lint`: FieldPolicies in files, checked without a cluster.
//!
//! Input: files with FieldPolicies and, beside them or in files of their own, the CRDs of their targets.
//! Output: a table or JSON on standard output, and whether anything weighs enough to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{DONE, FOUND, print};
use crate::api::{self, FieldPolicySpec};
use crate::cli::{FailOn, LintArgs, LintOutput};
use crate::cluster::in_force::GroupResource;
use crate::cluster::schemas::Kind;
use crate::ownership::rule::Policy;
use crate::ownership::schema::Schema;
use crate::policy::compile::compile;
use crate::policy::lint::{self, Facts, Finding, Severity};

/// Lints the files and prints what is found.
pub(super) fn run(args: &LintArgs) -> anyhow::Result<u8> {
    let mut input = Input::default();
    // Our own kinds are known without a file, and a file may still say otherwise.
    for crd in api::crds() {
        input.take(serde_json::to_value(&crd)?);
    }
    for file in args.crds.iter().chain(&args.files) {
        read(file, &mut input)?;
    }
    if input.policies.is_empty() {
        bail!("the files hold no FieldPolicy");
    }
    let found = found(input);
    match args.output {
        LintOutput::Table => print(&table(&found))?,
        LintOutput::Json => print(&format!("{:#}\n", list(&found)))?,
    }
    let fail_on = match args.fail_on {
        FailOn::Note => Severity::Note,
        FailOn::Warning => Severity::Warning,
        FailOn::Error => Severity::Error,
    };
    let fails = found.iter().any(|(_, finding)| finding.severity >= fail_on);
    Ok(if fails { FOUND } else { DONE })
}

/// What the files hold.
#[derive(Default)]
struct Input {
    policies: Vec<Value>,
    crds: BTreeMap<GroupResource, Value>,
    accounts: BTreeMap<String, BTreeSet<String>>,
}

impl Input {
    fn take(&mut self, object: Value) {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = text("/apiVersion");
        let group = group.split_once('/').map_or("", |(group, _)| group);
        match (group, text("/kind").as_str()) {
            (api::GROUP, "FieldPolicy") => self.policies.push(object),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                let resource =
                    GroupResource { group: text("/spec/group"), resource: text("/spec/names/plural") };
                self.crds.insert(resource, object);
            }
            ("", "ServiceAccount") => {
                let accounts = self.accounts.entry(text("/metadata/namespace")).or_default();
                accounts.insert(text("/metadata/name"));
            }
            ("", "List") => {
                let items = object.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
                for item in items {
                    self.take(item);
                }
            }
            _ => {}
        }
    }
}

fn read(file: &Path, input: &mut Input) -> anyhow::Result<()> {
    let name = file.display();
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("read standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("read {name}"))?;
    }
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{name} is no YAML"))?;
    for document in documents {
        input.take(document);
    }
    Ok(())
}

/// One policy on its way.
struct Candidate {
    name: String,
    spec: FieldPolicySpec,
    policy: Arc<Policy>,
}

/// All findings with the names of their policies, in the order of the files.
fn found(input: Input) -> Vec<(String, Finding)> {
    let Input { policies, crds, accounts } = input;
    let own = GroupResource { group: api::GROUP.to_owned(), resource: "fieldpolicies".to_owned() };
    let shape = crds.get(&own).map(|crd| Kind::from_crd(crd, api::VERSION).schema);
    let mut found = Vec::new();
    let mut targets: BTreeMap<GroupResource, Vec<Candidate>> = BTreeMap::new();
    for object in policies {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("(unnamed)").to_owned();
        let (candidate, findings) = compiled(&name, &object, shape.as_deref());
        found.extend(findings.into_iter().map(|finding| (name.clone(), finding)));
        if let Some(candidate) = candidate {
            let target = &candidate.spec.target;
            let resource = GroupResource { group: target.group.clone(), resource: target.resource.clone() };
            targets.entry(resource).or_default().push(candidate);
        }
    }
    let now = Timestamp::now().as_second();
    for (resource, candidates) in &targets {
        let crd = crds.get(resource);
        for (index, candidate) in candidates.iter().enumerate() {
            let others: Vec<Arc<Policy>> = candidates
                .iter()
                .enumerate()
                .filter(|(position, _)| *position != index)
                .map(|(_, other)| other.policy.clone())
                .collect();
            let findings = linted(candidate, crd, &others, &accounts, now);
            found.extend(findings.into_iter().map(|finding| (candidate.name.clone(), finding)));
        }
        found.extend(disagreement(candidates));
    }
    found
}

/// A policy as an object in a file, and what keeps it from being one in force.
fn compiled(name: &str, object: &Value, shape: Option<&Schema>) -> (Option<Candidate>, Vec<Finding>) {
    let error = |rule, at: String, message| Finding { at, severity: Severity::Error, rule, message };
    let unknown = shape.map(|shape| lint::unknown_keys(object, shape)).unwrap_or_default();
    let mut findings: Vec<Finding> = unknown
        .into_iter()
        .map(|(at, near)| {
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            error("unknown-key", at, format!("a FieldPolicy has no such field{near}"))
        })
        .collect();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let spec = match FieldPolicySpec::deserialize(spec) {
        Ok(spec) => spec,
        Err(problem) => {
            findings.push(error("unreadable", "spec".to_owned(), problem.to_string()));
            return (None, findings);
        }
    };
    match compile(name, 0, &spec) {
        Ok(policy) => {
            let candidate = Candidate { name: name.to_owned(), spec, policy: Arc::new(policy) };
            (Some(candidate), findings)
        }
        Err(errors) => {
            findings.extend(errors.0.into_iter().map(|it| error("does-not-compile", it.at, it.message)));
            (None, findings)
        }
    }
}

fn linted(
    candidate: &Candidate,
    crd: Option<&Value>,
    others: &[Arc<Policy>],
    accounts: &BTreeMap<String, BTreeSet<String>>,
    now: i64,
) -> Vec<Finding> {
    let Candidate { spec, policy, .. } = candidate;
    let version = &spec.target.version;
    let kind = crd.map(|crd| Kind::from_crd(crd, version));
    let known = kind.as_ref().map(Kind::lint_facts).unwrap_or_default();
    let facts = Facts { accounts: Some(accounts), now: Some(now), ..known };
    lint::lint(policy, spec, others, &facts)
}

/// All policies on a resource are written for one version; in the cluster a second one is not accepted.
fn disagreement(candidates: &[Candidate]) -> Option<(String, Finding)> {
    let first = candidates.first()?;
    let other = candidates.iter().find(|other| other.spec.target.version != first.spec.target.version)?;
    let message = format!(
        "policy {} is written for {}, this one for {}: all policies on a resource must name the same version",
        first.name, first.spec.target.version, other.spec.target.version
    );
    let at = "spec.target.version".to_owned();
    Some((other.name.clone(), Finding { at, severity: Severity::Error, rule: "version-disagrees", message }))
}

fn table(found: &[(String, Finding)]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let head = ["SEVERITY", "POLICY", "AT", "MESSAGE"].map(str::to_owned);
    let rows = found.iter().map(|(policy, finding)| {
        // A message of the compiler may have several lines.
        let message = finding.message.replace('\n', " ");
        [finding.severity.as_str().to_owned(), policy.clone(), finding.at.clone(), message]
    });
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
    let width = |column: fn(&[String; 4]) -> &String| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or_default()
    };
    let (severities, policies, places) =
        (width(|[it, ..]| it), width(|[_, it, ..]| it), width(|[_, _, it, _]| it));
    rows.iter().fold(String::new(), |mut text, [severity, policy, at, message]| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{severity:severities$}   {policy:policies$}   {at:places$}   {message}");
        text
    })
}

fn list(found: &[(String, Finding)]) -> Value {
    let item = |(policy, finding): &(String, Finding)| {
        json!({
            "severity": finding.severity.as_str(), "policy": policy, "rule": finding.rule,
            "at": finding.at, "message": finding.message,
        })
    };
    let version = format!("{}/{}", api::GROUP, api::VERSION);
    json!({"apiVersion": version, "kind": "LintFindingList", "items": found.iter().map(item).collect::<Vec<_>>()})
}
