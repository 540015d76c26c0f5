//! Each rule has a policy on which it speaks and one on which it is silent.

use serde_json::json;

use super::*;
use crate::policy::compile::compile;

const ANN: &str = "subjects: [{kind: User, name: ann}]";
const BOB: &str = "subjects: [{kind: User, name: bob}]";
const OPS: &str = "subjects: [{kind: Group, name: ops}]";
const BOT: &str = "subjects: [{kind: ServiceAccount, namespace: bots, name: bot}]";

fn spec(yaml: &str) -> FieldPolicySpec {
    let target = "target: {group: example.com, version: v1, resource: things}\nmode: Enforce\ndeletion: {}\n";
    serde_saphyr::from_str(&format!("{target}{yaml}")).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn policy(name: &str, spec: &FieldPolicySpec) -> Policy {
    compile(name, 1, spec).unwrap_or_else(|errors| panic!("{errors}"))
}

fn lint_with(spec: &FieldPolicySpec, others: &[FieldPolicySpec], facts: &Facts<'_>) -> Vec<Finding> {
    let others: Vec<_> = others.iter().map(|spec| Arc::new(policy("other", spec))).collect();
    lint(&policy("p", spec), spec, &others, facts)
}

fn owners(owners: &str) -> FieldPolicySpec {
    spec(&format!("owners: [{owners}]"))
}

fn owner(name: &str, subjects: &str, fields: &str) -> String {
    let subjects = if subjects.is_empty() { String::new() } else { format!("{subjects}, ") };
    format!("{{name: {name}, {subjects}fields: [{fields}]}}")
}

/// Rules and places of the findings on one policy alone.
fn found(spec: &FieldPolicySpec) -> Vec<(&'static str, String)> {
    lint_with(spec, &[], &Facts::default()).into_iter().map(|finding| (finding.rule, finding.at)).collect()
}

fn rules(findings: &[Finding]) -> Vec<(Severity, &'static str)> {
    findings.iter().map(|finding| (finding.severity, finding.rule)).collect()
}

fn fires(spec: &FieldPolicySpec, rule: &str, at: &str) {
    let found = found(spec);
    assert!(found.iter().any(|(name, place)| *name == rule && place == at), "{rule} at {at}: {found:?}");
}

fn silent(spec: &FieldPolicySpec) {
    assert_eq!(found(spec), []);
}

const GUARD: &str = "{path: .spec.m}";

/// `.spec.m` is guarded, `a` and `b` claim `.spec.x` under these conditions.
fn two(a: (&str, &str), b: (&str, &str)) -> FieldPolicySpec {
    let claim = |when: &str| match when {
        "" => "{path: .spec.x}".to_owned(),
        when => format!("{{path: .spec.x, when: \"{when}\"}}"),
    };
    owners(&format!(
        "{}, {}, {}",
        owner("g", OPS, GUARD),
        owner("a", a.0, &claim(a.1)),
        owner("b", b.0, &claim(b.1))
    ))
}

#[test]
fn a_path_with_two_owners_is_noted_unless_only_one_holds_at_a_time() {
    fires(&two((ANN, ""), (BOB, "")), "shared-path", "spec.owners[b].fields[0].path");
    let m = "oldObject.spec.m == 'A'";
    fires(&two((ANN, m), (BOB, m)), "shared-path", "spec.owners[b].fields[0].path");
    silent(&two((ANN, m), (BOB, "oldObject.spec.m != 'A'")));
}

#[test]
fn a_claim_on_a_path_that_another_closes_never_grants() {
    fires(&two((ANN, ""), ("", "")), "closed-claim", "spec.owners[a].fields[0].path");
    let m = "oldObject.spec.m == 'A'";
    fires(&two((ANN, m), ("", m)), "closed-claim", "spec.owners[a].fields[0].path");
    silent(&two((ANN, m), ("", "oldObject.spec.m != 'A'")));
    silent(&two((ANN, ""), ("", m)));
}

#[test]
fn conditions_that_never_or_always_hold_are_seen() {
    let m = "oldObject.spec.m == 'A' && oldObject.spec.m == 'B'";
    fires(&two((ANN, m), (BOB, "")), "never-holds", "spec.owners[a].fields[0].when");
    fires(
        &owners(&owner("a", ANN, "{path: .spec, when: 'true'}")),
        "always-holds",
        "spec.owners[a].fields[0].when",
    );
}

#[test]
fn a_claim_twice_is_seen_and_one_under_two_conditions_is_not() {
    let at = "spec.owners[a].fields[1].path";
    fires(&owners(&owner("a", ANN, "{path: .spec.x}, {path: '.spec[\"x\"]'}")), "duplicate-claim", at);
    let two = "{path: .spec.m}, {path: .spec.x, when: \"oldObject.spec.m == 'A'\"}, \
               {path: .spec.x, when: \"oldObject.spec.m != 'A'\"}";
    silent(&owners(&owner("a", ANN, two)));
}

#[test]
fn a_part_of_an_item_that_nobody_may_add_is_seen() {
    let closed = owner("n", "", "{path: '.spec.l[k=\"a\"]'}");
    let part = owner("a", ANN, "{path: '.spec.l[k=\"a\"].v'}");
    fires(&owners(&format!("{closed}, {part}")), "closed-item", "spec.owners[a].fields[0].path");
    let plain = owner("n", "", "{path: .spec.l}");
    silent(&owners(&format!("{plain}, {part}")));
}

#[test]
fn a_milder_claim_under_a_stricter_one_softens_nothing() {
    let mild = owner("a", ANN, "{path: .spec.x, mode: Warn}");
    let above = owner("o", OPS, "{path: .spec}");
    fires(&owners(&format!("{above}, {mild}")), "milder-claim", "spec.owners[a].fields[0].mode");
    silent(&owners(&format!("{}, {mild}", owner("o", OPS, "{path: .spec.y}"))));
}

#[test]
fn a_path_that_nobody_owns_at_times_is_seen() {
    let a = (ANN, "oldObject.spec.m == 'A'");
    let b = (BOB, "oldObject.spec.m == 'B'");
    fires(&two(a, b), "when-gap", "spec.owners[a].fields[0].when");
    assert_eq!(found(&two(a, b)).len(), 1, "once for a path");
    silent(&two(a, (BOB, "oldObject.spec.m != 'A'")));
    silent(&owners(&format!(
        "{}, {}",
        owner("g", OPS, "{path: .spec}"),
        owner("a", ANN, "{path: .spec.x, when: \"oldObject.spec.m == 'A'\"}")
    )));
    let mut denied = two(a, b);
    denied.unlisted = crate::api::field_policy::Unlisted::Deny;
    silent(&denied);
}

#[test]
fn policies_that_name_different_owners_leave_nobody() {
    let own = |subjects: &str, path: &str| owners(&owner("a", subjects, &format!("{{path: {path}}}")));
    let against = |a: &FieldPolicySpec, b: &FieldPolicySpec| {
        rules(&lint_with(a, std::slice::from_ref(b), &Facts::default()))
    };
    let error = [(Severity::Error, "contradicting-policies")];
    let warning = [(Severity::Warning, "contradicting-policies")];
    assert_eq!(against(&own(ANN, ".spec.x"), &own(BOB, ".spec.x")), error);
    assert_eq!(
        against(&own(ANN, ".spec.x"), &own(BOB, ".spec")),
        error,
        "a broad claim judges the part, too"
    );
    assert_eq!(against(&own(ANN, ".spec"), &own(BOB, ".spec.x")), error, "seen from both sides");
    assert_eq!(against(&own(ANN, ".spec.x"), &own(OPS, ".spec")), warning, "ann may be one of them");
    assert_eq!(against(&own(ANN, ".spec.x"), &own("", ".spec")), warning, "a freeze");
    assert_eq!(against(&own(ANN, ".spec.x"), &own(ANN, ".spec")), []);
    assert_eq!(against(&own(ANN, ".spec.x"), &own(BOB, ".spec.y")), []);
    assert_eq!(against(&own("", ".spec.x"), &own(BOB, ".spec.x")), [], "closed stays closed");
    let both =
        owners(&format!("{}, {}", owner("a", ANN, "{path: .spec}"), owner("b", BOB, "{path: .spec.x}")));
    assert_eq!(against(&both, &own(BOB, ".spec.x")), [], "our own claim on the part speaks for itself");
    let mut audited = own(BOB, ".spec.x");
    audited.mode = crate::api::field_policy::Mode::Audit;
    assert_eq!(against(&own(ANN, ".spec.x"), &audited), warning, "nothing is refused yet");
}

#[test]
fn paths_that_the_schema_lacks_are_seen_with_the_nearest_name() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {"type": "object",
    "properties": {
        "targetNodes": {"type": "integer"}, "mode": {"type": "string"},
        "zones": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "conditions": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}}},
        "window": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"from": {"type": "string"}}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port", "protocol"], "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string"}}}},
    }}}}))
    .unwrap();
    let said = |fields: &str| {
        let facts = Facts { schema: Some(&schema), ..Facts::default() };
        let findings = lint_with(&owners(&owner("a", ANN, fields)), &[], &facts);
        findings.into_iter().map(|finding| format!("{} {finding}", finding.rule)).collect::<Vec<_>>()
    };
    assert_eq!(
        said("{path: .spec.targetNode}"),
        ["unknown-path spec.owners[a].fields[0].path: the schema has no .spec.targetNode; did you mean \
          .spec.targetNodes?"]
    );
    let read = said("{path: .spec}, {path: .spec.targetNodes, when: \"oldObject.spec.mod == 'A'\"}");
    assert_eq!(read.len(), 1, "{read:?}");
    assert!(read[0].starts_with("unknown-path spec.owners[a].fields[1].when: "), "{read:?}");
    assert!(
        said("{path: '.spec.zones[k=\"a\"]'}")[0].ends_with("items of .spec.zones are told apart by value")
    );
    assert!(said("{path: .spec.mode.x}")[0].ends_with(".spec.mode has no fields"));
    assert_eq!(
        said("{path: '.spec.ports[port=1]'}"),
        [
            "partial-key spec.owners[a].fields[0].path: .spec.ports[port=1] covers every item that matches: the list's \
          keys also have protocol"
        ]
    );
    for (path, node) in
        [(".spec.conditions[type=\"Ready\"]", ".spec.conditions"), (".spec.window.from", ".spec.window")]
    {
        let said = said(&format!("{{path: '{path}'}}"));
        assert_eq!(said.len(), 1, "{said:?}");
        let words =
            format!("atomic-node spec.owners[a].fields[0].path: {node} is one value to the API server");
        assert!(said[0].starts_with(&words), "{said:?}");
    }
    silent_with("{path: .spec.conditions}, {path: .spec.window}, {path: '.spec.zones[=\"a\"]'}", &schema);
    silent_with("{path: '.spec.ports[port=1,protocol=\"TCP\"]'}, {path: .spec.mode}", &schema);
}

fn silent_with(fields: &str, schema: &Schema) {
    let facts = Facts { schema: Some(schema), ..Facts::default() };
    assert_eq!(lint_with(&owners(&owner("a", ANN, fields)), &[], &facts), []);
    // Nothing is known of a kind without schema.
    let deduced = Schema::deduced();
    let facts = Facts { schema: Some(&deduced), ..Facts::default() };
    assert_eq!(lint_with(&owners(&owner("a", ANN, "{path: .spec.anything}")), &[], &facts), []);
}

#[test]
fn names_that_many_share_are_not_reserved() {
    let with = |name: &str, usage: &str, subjects: &str| {
        owners(&format!(
            "{{name: a, {subjects}fieldManagers: [{{name: {name}, use: {usage}}}], fields: [{{path: .spec}}]}}"
        ))
    };
    let ann = format!("{ANN}, ");
    for name in ["kubectl", "kubectl-edit", "helm", "Helm", "manager", "kube-controller-manager", "unknown"] {
        fires(
            &with(name, "Reserve", &ann),
            "shared-manager",
            &format!("spec.owners[a].fieldManagers[{name}]"),
        );
        silent(&with(name, "Expect", &ann));
    }
    silent(&with("ann-controller", "Require", &ann));
    fires(&with("x", "Require", ""), "required-of-nobody", "spec.owners[a].fieldManagers[x]");
    silent(&with("x", "Reserve", ""));
}

#[test]
fn a_former_name_is_one_that_nobody_writes_under_any_more() {
    let with = |present: &str, former: &str| {
        owners(&format!(
            "{{name: a, {ANN}, fieldManagers: [{present}], formerFieldManagers: [{former}], fields: [{{path: .spec}}]}}"
        ))
    };
    let at = "spec.owners[a].formerFieldManagers[scaler]";
    silent(&with("{name: autoscaler}", "scaler"));
    fires(&with("{name: scaler}", "scaler"), "former-manager-in-use", at);
    fires(&with("", "scaler"), "former-manager-without-successor", at);
    fires(
        &with("{name: autoscaler}", "kubectl-edit"),
        "shared-manager",
        "spec.owners[a].formerFieldManagers[kubectl-edit]",
    );
    let two = |claim: &str| {
        owners(&format!(
            "{{name: a, {ANN}, fieldManagers: [{{name: autoscaler}}], formerFieldManagers: [scaler], \
             fields: [{{path: .spec.a}}]}}, {{name: b, {ANN}, {claim}, fields: [{{path: .spec.b}}]}}"
        ))
    };
    fires(&two("fieldManagers: [{name: scaler}]"), "former-manager-in-use", at);
    fires(&two("fieldManagers: [{name: b}], formerFieldManagers: [scaler]"), "former-manager-in-use", at);
    silent(&two("fieldManagers: [{name: b}]"));
}

#[test]
fn deletion_that_undoes_ownership_is_seen() {
    let mut free = owners(&owner("a", ANN, "{path: .spec}"));
    silent(&free);
    free.deletion = None;
    let all = |spec: &FieldPolicySpec| rules(&lint_with(spec, &[], &Facts::default()));
    assert_eq!(all(&free), [(Severity::Note, "free-deletion")]);
    free.creation.policy = crate::api::field_policy::CreationPolicy::Anyone;
    assert_eq!(all(&free), [(Severity::Warning, "free-deletion")]);
    free.mode = crate::api::field_policy::Mode::Audit;
    assert_eq!(all(&free), [], "nothing is enforced");
}

#[test]
fn an_object_that_nobody_can_create_is_seen() {
    let required: Vec<Pattern> =
        [".spec.x", ".spec.y"].iter().map(|path| Pattern::parse(path).unwrap()).collect();
    let said = |spec: &FieldPolicySpec| {
        lint_with(spec, &[], &Facts { required: &required, ..Facts::default() })
            .into_iter()
            .map(|finding| (finding.severity, finding.rule))
            .collect::<Vec<_>>()
    };
    let split = |x: &str, y: &str| {
        owners(&format!("{}, {}", owner("a", x, "{path: .spec.x}"), owner("b", y, "{path: .spec.y}")))
    };
    assert_eq!(said(&split(ANN, BOT)), [(Severity::Error, "no-creator")]);
    assert_eq!(said(&split(ANN, "")), [(Severity::Error, "no-creator")]);
    assert_eq!(said(&split(ANN, OPS)), [], "ann may be one of ops");
    assert_eq!(said(&split(ANN, ANN)), []);
    assert_eq!(said(&owners(&owner("a", ANN, "{path: .spec.x}"))), [], "unclaimed fields are free on CREATE");
    let mut anyone = split(ANN, BOT);
    anyone.creation.policy = crate::api::field_policy::CreationPolicy::Anyone;
    assert_eq!(said(&anyone), []);
    let mut restore = split(ANN, BOT);
    restore.creation.except = restore.owners[0].subjects.clone();
    assert_eq!(said(&restore), [(Severity::Warning, "no-creator")]);
}

#[test]
fn subjects_that_do_not_exist_are_seen_where_the_namespace_is_known() {
    let accounts = BTreeMap::from([("bots".to_owned(), BTreeSet::from(["bott".to_owned()]))]);
    let facts = Facts { accounts: Some(&accounts), namespaced: Some(false), ..Facts::default() };
    let said = |subjects: &str| {
        let findings = lint_with(&owners(&owner("a", subjects, "{path: .spec}")), &[], &facts);
        findings.into_iter().map(|finding| finding.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        said(BOT),
        ["spec.owners[a].subjects[0]: there is no ServiceAccount bots/bot; did you mean bott?"]
    );
    assert_eq!(said("subjects: [{kind: ServiceAccount, namespace: elsewhere, name: bot}]"), [""; 0]);
    assert_eq!(said(ANN), [""; 0]);
    let own = said("subjects: [{kind: ServiceAccount, namespaceFrom: Object, name: bot}]");
    assert!(own[0].contains("things have no namespace"), "{own:?}");
}

#[test]
fn versions_and_pauses_are_checked_against_the_facts() {
    let served = ["v2".to_owned()];
    let mut spec = owners(&owner("a", ANN, "{path: .spec}"));
    spec.paused_until = Some("2026-01-01T00:00:00Z".to_owned());
    let until = 1_767_225_600;
    let at = |now: i64, served: &[String]| {
        rules(&lint_with(&spec, &[], &Facts { now: Some(now), served: Some(served), ..Facts::default() }))
    };
    assert_eq!(at(until - 10, &served), [(Severity::Error, "version-not-served")]);
    assert_eq!(at(until - 10, &[]), [(Severity::Error, "no-such-kind")]);
    let served = ["v2".to_owned(), "v1".to_owned()];
    assert_eq!(at(until - 10, &served), []);
    assert_eq!(at(until, &served), [(Severity::Warning, "pause-over")]);
    assert_eq!(at(until - MAX_PAUSE - 1, &served), [(Severity::Error, "pause-too-long")]);
}

#[test]
fn a_policy_that_claims_nothing_is_seen() {
    let mut spec = owners("{name: a, fieldManagers: [{name: x}]}");
    silent(&spec);
    spec.deletion = None;
    fires(&spec, "nothing-claimed", "spec.owners");
}

#[test]
fn the_heaviest_come_first() {
    let mut spec = two((ANN, ""), ("", ""));
    spec.deletion = None;
    let severities: Vec<Severity> =
        lint_with(&spec, &[], &Facts::default()).into_iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Note]);
}

#[test]
fn keys_that_a_schema_lacks_are_seen() {
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"owners": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "fields": {"type": "array", "items": {"type": "object"}}}}}}}}}))
    .unwrap();
    let object = json!({"kind": "X", "metadata": {"name": "n", "labels": {"a": "b"}},
        "spec": {"owners": [{"name": "a", "feilds": []}]}});
    assert_eq!(
        unknown_keys(&object, &schema),
        [("spec.owners[a].feilds".to_owned(), Some("fields".to_owned()))]
    );
}
