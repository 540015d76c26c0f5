//! What people, programs and auditors are told, end to end.

use serde_json::{Value, json};

use crate::arena::{Call, Pond, admin, alice, arena};
use crate::harness::{Identity, get};

/// A policy on the arena's kind; `rest` is more YAML below `spec`.
fn policy(name: &str, rest: &str) -> String {
    format!(
        "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         target: {{group: arena.example.com, version: v1, resource: ponds}}\n{rest}"
    )
}

#[tokio::test]
async fn a_program_reads_the_refusal_from_the_status_and_a_person_from_the_message() {
    let pond = Pond::new("refusal").await;
    let reply = pond.patch(&alice(), &json!({"spec": {"size": "XL", "limits": {"cpu": 9}}})).await;
    assert_eq!((reply.code, reply.body["reason"].as_str()), (403, Some("Forbidden")));
    assert_eq!(reply.body["details"]["name"], "refusal");
    assert_eq!(reply.fields(), [".spec.limits.cpu", ".spec.size"]);
    assert_eq!(reply.reasons(), ["FieldOwnedByAnother"]);
    let message = reply.message();
    for part in [
        "user \"alice\" may not change 2 fields of Pond \"refusal\"",
        ".spec.size: \"L\" -> \"XL\"",
        "owner:   ctrl-a (ServiceAccount ponds/ctrl-a)",
        "policy:  ponds",
        "set by:  field manager ctrl-a (Apply)",
        "instead: ",
    ] {
        assert!(message.contains(part), "{part} is missing in:\n{message}");
    }
}

#[tokio::test]
async fn a_dry_run_is_answered_like_the_real_thing_and_counts_as_a_review() {
    let pond = Pond::new("dry-run").await;
    let args = ["patch", "pond", "dry-run", "--type=merge", r#"-p={"spec":{"size":"XL"}}"#, "--as=alice"];
    let real = pond.arena.plane.kubectl(&args).await.unwrap();
    let dry = pond.arena.plane.kubectl(&[&args[..], &["--dry-run=server"]].concat()).await.unwrap();
    assert!(!real.success && real.text().contains(".spec.size: \"L\" -> \"XL\""), "{}", real.text());
    assert_eq!(dry.text(), real.text());
}

#[tokio::test]
async fn a_denial_is_one_line_in_our_log_and_an_annotation_in_the_api_servers() {
    let pond = Pond::new("logged").await;
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    let event = pond.arena.plane.audit_event("the refused patch", |event| {
        event.actor() == "alice" && event.request_uri.contains("ponds/logged") && event.code() == 403
    });
    let annotations = serde_json::to_value(&event.await.unwrap().annotations).unwrap();
    assert_eq!(annotations["enforce.fieldkeeper.dev/denied"], "ponds: .spec.size");
    let log = pond.arena.fieldkeeper.lock().await.webhook.log();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("logged") && line.contains("denied")).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for part in ["alice", ".spec.size", "ponds", "uid"] {
        assert!(lines[0].contains(part), "{part} is missing in {}", lines[0]);
    }
    assert!(!lines[0].contains("XL"), "values are not logged: {}", lines[0]);
}

#[tokio::test]
async fn reviews_and_denials_are_counted() {
    let pond = Pond::new("counted").await;
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);
    let port = pond.arena.fieldkeeper.lock().await.metrics_port;
    let (code, metrics) = get(port, "/metrics").await.unwrap();
    assert_eq!(code, 200);
    let denied =
        metrics.lines().find(|line| line.starts_with("fieldkeeper_") && line.contains("policy=\"ponds\""));
    assert!(denied.is_some(), "{metrics}");
    assert!(!metrics.contains("counted"), "no object names in labels");
}

#[tokio::test]
async fn warn_tells_the_client_and_audit_only_the_audit_log() {
    let arena = arena().await;
    let owners = "  owners:\n  - name: a\n    subjects: [{kind: User, name: nobody-here}]\n    fields:\n    \
        - {path: .spec.mode, mode: Warn}\n    - {path: '.spec.labels[\"quiet\"]', mode: Audit}\n";
    arena.enforce(&policy("mild", &format!("  mode: Audit\n{owners}")), "mild").await;
    let pond = Pond::new("mild").await;
    let warned = async || {
        let reply = pond.patch(&alice(), &json!({"spec": {"mode": "loud"}})).await;
        (!reply.warnings.is_empty()).then_some(reply)
    };
    // The webhook learns of the policy by watching; the value is new each time the first write already passed.
    let reply = crate::harness::eventually("a warning", crate::arena::PATIENCE, async || {
        pond.patch(&admin(), &json!({"spec": {"mode": "calm"}})).await;
        warned().await
    });
    let reply = reply.await.unwrap();
    assert!(reply.warnings[0].contains(".spec.mode: \\\"calm\\\" -> \\\"loud\\\""), "{:?}", reply.warnings);
    assert!(reply.warnings[0].contains("will be refused once enforced"), "{:?}", reply.warnings);
    reply.allowed();
    let reply = pond.patch(&alice(), &json!({"spec": {"labels": {"quiet": "x"}}})).await;
    assert_eq!(reply.warnings, [""; 0]);
    reply.allowed();
    let event = arena.plane.audit_event("the audited patch", |event| {
        event.request_uri.contains("ponds/mild")
            && event.annotations.contains_key("enforce.fieldkeeper.dev/would-deny")
    });
    let annotations = serde_json::to_value(&event.await.unwrap().annotations).unwrap();
    assert_eq!(annotations["enforce.fieldkeeper.dev/would-deny"], "mild: .spec.labels.quiet");
    arena.plane.kubectl(&["delete", "fieldpolicy", "mild"]).await.unwrap().ok().unwrap();
}

#[tokio::test]
async fn the_bypass_group_writes_as_usual_and_its_use_is_recorded() {
    let pond = Pond::new("bypass").await;
    let oncall = Identity::person("oncall", &["fieldkeeper.dev:bypass"]);
    let reply = pond.patch(&oncall, &json!({"spec": {"size": "XL"}})).await;
    assert!(
        reply.warnings.iter().any(|warning| warning.contains("break-glass and recorded")),
        "{:?}",
        reply.warnings
    );
    reply.allowed();
    let event = pond.arena.plane.audit_event("the bypass", |event| {
        event.actor() == "oncall" && event.annotations.contains_key("bypass.fieldkeeper.dev/bypass")
    });
    let annotations = serde_json::to_value(&event.await.unwrap().annotations).unwrap();
    assert_eq!(annotations["bypass.fieldkeeper.dev/bypass"], "would-deny");
}

#[tokio::test]
async fn a_policy_that_does_not_compile_is_refused_with_the_place_and_one_in_place_can_be_deleted() {
    let arena = arena().await;
    let bad = policy(
        "bad",
        "  owners:\n  - name: a\n    fields: [{path: '.spec[x'}, {path: .spec, when: 'oldObject.spec.'}]\n",
    );
    let args = ["apply", "--server-side", "-f", "-"];
    let output = arena.plane.run_kubectl(&arena.plane.admin_kubeconfig(), &args, &bad).await.unwrap();
    assert!(!output.success, "{}", output.text());
    for part in ["spec.owners[a].fields[0].path", "⟨here⟩", "spec.owners[a].fields[1].when"] {
        assert!(output.text().contains(part), "{part} is missing in:\n{}", output.text());
    }
    // The bypass entry does not cover FieldPolicies, so one gets in only while we are down; deleting is never asked about.
    let fine = policy("doomed", "  unlisted: Warn\n  deletion: {subjects: []}\n  mode: Audit\n");
    arena.plane.apply(&fine).await.unwrap();
    arena.plane.kubectl(&["delete", "fieldpolicy", "doomed"]).await.unwrap().ok().unwrap();
}

#[tokio::test]
async fn mutators_and_a_generated_admission_policy_do_not_go_together() {
    let arena = arena().await;
    let call = Call::create("", &Value::Null)
        .at("/apis/fieldkeeper.dev/v1alpha1/fieldpolicies")
        .dry_run()
        .body(&json!({
            "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": "mutated"},
            "spec": {"target": {"group": "arena.example.com", "version": "v1", "resource": "ponds"},
                     "admissionPolicy": "Deny",
                     "owners": [{"name": "a", "fields": [{"path": ".spec", "mutators": [{"name": "vpa"}]}]}]},
        }));
    let reply = arena.send(&call, &Identity::admin()).await;
    assert!(reply.message().contains("spec.owners[a].fields[0].mutators: .spec has mutators"), "{reply:?}");
}
