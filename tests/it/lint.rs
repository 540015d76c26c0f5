//! `fieldkeeper lint` as a program, and its findings as warnings at admission.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::arena::arena;
use crate::harness::{fieldkeeper, repository};

const SMELLY: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: passed-over}
---
apiVersion: fieldkeeper.dev/v1alpha1
kind: FieldPolicy
metadata: {name: smelly}
spec:
  target: {group: arena.example.com, version: v1, resource: ponds}
  mode: Audit
  owners:
  - name: a
    subjects: [{kind: User, name: ann}]
    fieldManagers: [{name: kubectl-edit, use: Reserve}]
    fields:
    - path: .spec.szie
    - path: .spec.taints[key="a"]
  - name: nobody
    fields: [{path: .spec.szie}]
"#;

fn lint(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(fieldkeeper().unwrap()).arg("lint").args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_shipped_sample_has_nothing_to_mend() {
    let sample = repository("deploy/samples/nodepools-policy.yaml");
    // Delete and re-create resets the fields: what the sample is about is who writes, so this stays a note.
    let (code, out, err) = lint(&["-f", text(&sample)]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[1].starts_with("Note       nodepools   spec.deletion   whoever may delete"), "{out}");
    let (code, ..) = lint(&["-f", text(&sample), "--fail-on=note"]);
    assert_eq!(code, 1);
}

#[test]
fn findings_are_printed_as_a_table_and_as_json_and_make_the_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, SMELLY).unwrap();
    let crd = repository("tests/data/arena-crd.yaml");
    let (code, out, err) = lint(&["-f", text(&file), "--crd", text(&crd)]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let words: Vec<&str> = out.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(words, ["SEVERITY", "POLICY", "AT", "MESSAGE"]);
    for part in [
        "Error      smelly   spec.owners[a].fields[0].path",
        "the schema has no .spec.szie; did you mean .spec.size?",
        "never grants .spec.szie: nobody has no subjects and closes the same path",
        "Warning    smelly   spec.owners[a].fields[1].path",
        "the list's keys also have effect",
        "spec.owners[a].fieldManagers[kubectl-edit]",
    ] {
        assert!(out.contains(part), "{part} is missing in:\n{out}");
    }
    let (code, out, _) = lint(&["-f", text(&file), "--crd", text(&crd), "-o", "json"]);
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, list["kind"].as_str()), (1, Some("LintFindingList")));
    let rules: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|item| item["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["closed-claim", "unknown-path", "unknown-path", "partial-key", "shared-manager"]);
}

#[test]
fn what_does_not_compile_or_is_misspelt_is_a_finding_and_what_cannot_be_read_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let broken = SMELLY.replace("path: .spec.taints[key=\"a\"]", "path: '.spec[x'\n      wehn: x");
    std::fs::write(&file, broken).unwrap();
    let (code, out, _) = lint(&["-f", text(&file)]);
    assert_eq!(code, 1);
    assert!(out.contains("spec.owners[a].fields[1].path") && out.contains("⟨here⟩"), "{out}");
    assert!(out.contains("spec.owners[a].fields[1].wehn") && out.contains("did you mean when?"), "{out}");

    std::fs::write(&file, "a: [").unwrap();
    let (code, out, err) = lint(&["-f", text(&file)]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("policy.yaml is no YAML"), "{err}");
    std::fs::write(&file, "kind: ConfigMap\napiVersion: v1\n").unwrap();
    assert_eq!(lint(&["-f", text(&file)]).0, 2, "no policy in it");
    assert_eq!(lint(&["-f", text(&folder.path().join("none.yaml"))]).0, 2);
    assert_eq!(lint(&[]).0, 2);
}

#[tokio::test]
async fn applying_a_smelly_policy_prints_what_lint_says() {
    let arena = arena().await;
    let args = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
    let policy = SMELLY.split("---\n").nth(1).unwrap();
    let output = arena.plane.run_kubectl(&arena.plane.admin_kubeconfig(), &args, policy).await.unwrap();
    assert!(output.success, "{}", output.text());
    for part in [
        "Warning: fieldkeeper: spec.owners[a].fields[0].path: the schema has no .spec.szie; did you mean .spec.size?",
        "Warning: fieldkeeper: spec.owners[a].fields[1].path: .spec.taints[key=\"a\"] covers every item",
        "Warning: fieldkeeper: spec.owners[a].fieldManagers[kubectl-edit]: ",
    ] {
        assert!(output.stderr.contains(part), "{part} is missing in:\n{}", output.stderr);
    }
    // The arena's own policy owns .spec.size and knows another owner.
    let second = policy.replace(".spec.szie", ".spec.size").replace("mode: Audit", "mode: Enforce");
    let output = arena.plane.run_kubectl(&arena.plane.admin_kubeconfig(), &args, &second).await.unwrap();
    assert!(output.stderr.contains("nobody has no subjects and closes the same path"), "{}", output.text());
    let second = second.split("  - name: nobody").next().unwrap();
    let output = arena.plane.run_kubectl(&arena.plane.admin_kubeconfig(), &args, second).await.unwrap();
    let said = "policy ponds names other owners for .spec.size: each policy refuses the owners of the other";
    assert!(output.stderr.contains(said), "{}", output.text());
}

/// Nobody has asked about the kind before, so nothing in the webhook knows it yet.
#[tokio::test]
async fn applying_the_first_policy_on_a_kind_checks_it_against_the_cluster() {
    let arena = arena().await;
    let warned = async |version: &str, resource: &str, account: &str| {
        let policy = format!(
            "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: first}}\nspec:\n  \
             target: {{group: apps, version: {version}, resource: {resource}}}\n  deletion: {{subjects: []}}\n  \
             owners:\n  - name: a\n    subjects: [{{kind: ServiceAccount, namespace: fieldkeeper-system, name: {account}}}]\n    \
             fields: [{{path: .spec.paused}}]\n"
        );
        let args = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
        let output = arena.plane.run_kubectl(&arena.plane.admin_kubeconfig(), &args, &policy).await.unwrap();
        assert!(output.success, "{}", output.text());
        let warnings =
            output.stderr.lines().map(|line| line.trim_start_matches("Warning: fieldkeeper: ").to_owned());
        warnings.collect::<Vec<_>>()
    };
    assert_eq!(warned("v1", "deployments", "webhook").await, [""; 0]);
    assert_eq!(
        warned("v1", "deployments", "webhok").await,
        [
            "spec.owners[a].subjects[0]: there is no ServiceAccount fieldkeeper-system/webhok; did you mean webhook?"
        ]
    );
    assert_eq!(
        warned("v1", "replicasets", "webhook").await,
        ["spec.owners[a].fields[0].path: the schema has no .spec.paused"]
    );
    assert_eq!(
        warned("v1beta2", "deployments", "webhook").await,
        ["spec.target.version: v1beta2 is not served; served are: v1"]
    );
    assert_eq!(
        warned("v1", "deployment", "webhook").await,
        ["spec.target: there is no resource deployment.apps in this cluster"]
    );
}

#[test]
fn mutators_beside_a_generated_admission_policy_are_a_finding_that_names_the_claim() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let mutated = SMELLY
        .replace("mode: Audit", "mode: Audit\n  admissionPolicy: Deny")
        .replace("- path: .spec.taints[key=\"a\"]", "- {path: .spec.size, mutators: [{name: vpa}]}");
    std::fs::write(&file, mutated).unwrap();
    let (code, out, _) = lint(&["-f", text(&file)]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("spec.owners[a].fields[1].mutators") && out.contains(".spec.size has mutators"),
        "{out}"
    );
}
