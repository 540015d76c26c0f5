//! What a FieldPolicy compiles to, and what is said of one that does not.

use fieldkeeper::api::FieldPolicySpec;
use fieldkeeper::ownership::rule::Mode;
use fieldkeeper::policy::compile::compile;

fn spec(yaml: &str) -> FieldPolicySpec {
    let target = "target: {group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}\n";
    serde_saphyr::from_str(&format!("{target}{yaml}")).unwrap()
}

fn errors(yaml: &str) -> Vec<String> {
    let errors = compile("p", 1, &spec(yaml)).expect_err(yaml);
    errors.0.iter().map(ToString::to_string).collect()
}

const ANN: &str = "subjects: [{kind: User, name: ann}]";

#[test]
fn a_bad_path_is_refused_with_the_place_in_the_policy_and_in_the_path() {
    let found =
        errors(&format!("owners: [{{name: a, {ANN}, fields: [{{path: '.spec.a'}}, {{path: '.spec[x'}}]}}]"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec.owners[a].fields[1].path: "), "{found:?}");
    assert!(found[0].contains("⟨here⟩"), "{found:?}");
}

#[test]
fn every_error_is_reported_and_not_only_the_first() {
    let found = errors(&format!(
        "admissionPolicy: Deny\nowners: [{{name: a, {ANN}, fields: [{{path: 'spec'}}, {{path: .kind}}, {{path: .spec, when: 'oldObject.'}}, {{path: .spec.b, mutators: [{{name: vpa}}]}}]}}]"
    ));
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn a_claim_with_mutators_stands_in_the_way_of_a_generated_admission_policy() {
    let owners = format!(
        "owners: [{{name: a, {ANN}, fields: [{{path: .spec.a}}, {{path: .spec.b, mutators: [{{name: vpa}}]}}]}}]"
    );
    for action in ["Audit", "Deny"] {
        let found = errors(&format!("admissionPolicy: {action}\n{owners}"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("spec.owners[a].fields[1].mutators: .spec.b"), "{found:?}");
    }
    compile("p", 1, &spec(&format!("admissionPolicy: None\n{owners}"))).unwrap();
    let without = format!("admissionPolicy: Deny\nowners: [{{name: a, {ANN}, fields: [{{path: .spec.a}}]}}]");
    compile("p", 1, &spec(&without)).unwrap();
}

#[test]
fn what_only_the_server_writes_cannot_be_owned() {
    for path in [
        ".metadata",
        ".metadata.managedFields",
        ".metadata.resourceVersion",
        ".metadata.uid",
        ".kind",
        ".apiVersion",
    ] {
        let found = errors(&format!("owners: [{{name: a, {ANN}, fields: [{{path: {path}}}]}}]"));
        assert!(found[0].starts_with("spec.owners[a].fields[0].path: "), "{found:?}");
    }
}

#[test]
fn a_condition_reads_only_what_is_claimed_without_condition_and_as_strictly() {
    let policy = |guard: &str| {
        format!(
            "mode: Enforce\nowners: [{{name: a, {ANN}, fields: [{guard}]}}, \
             {{name: b, {ANN}, fields: [{{path: .spec.x, when: \"oldObject.spec.mode == 'A'\"}}]}}]"
        )
    };
    for guard in ["{path: .spec.mode}", "{path: .spec}"] {
        compile("p", 1, &spec(&policy(guard))).unwrap();
    }
    for guard in [
        "{path: .spec.other}",
        "{path: .spec.mode.deeper}",
        "{path: .spec.mode, mode: Warn}",
        "{path: .spec.mode, when: 'oldObject.metadata.generation > 1'}",
    ] {
        let found = errors(&policy(guard));
        assert!(
            found[0].starts_with("spec.owners[b].fields[0].when: ") && found[0].contains(".spec.mode"),
            "{found:?}"
        );
    }
}

#[test]
fn modes_come_from_the_field_else_the_owner_else_the_policy() {
    let policy = compile(
        "p",
        1,
        &spec(&format!(
            "mode: Warn\nowners: [{{name: a, {ANN}, mode: Enforce, fields: [{{path: .spec.a}}, {{path: .spec.b, mode: Audit}}]}}, \
             {{name: b, {ANN}, fields: [{{path: .spec.c}}]}}]"
        )),
    )
    .unwrap();
    let mode =
        |path: &str| policy.claims.iter().find(|claim| claim.pattern.to_string() == path).unwrap().mode;
    assert_eq!([mode(".spec.a"), mode(".spec.b"), mode(".spec.c")], [Mode::Enforce, Mode::Audit, Mode::Warn]);
    assert_eq!(
        (policy.mode, policy.integrity.mode, policy.integrity.co_ownership),
        (Mode::Warn, Mode::Warn, Mode::Audit)
    );
    assert_eq!(policy.strictest(), Mode::Enforce);
}

#[test]
fn the_shipped_sample_compiles() {
    let policy: fieldkeeper::api::FieldPolicy =
        serde_saphyr::from_str(include_str!("../../deploy/samples/nodepools-policy.yaml")).unwrap();
    compile("nodepools", 1, &policy.spec).unwrap();
}

#[test]
fn a_label_that_selects_objects_is_owned_unconditionally_and_as_strictly() {
    let policy = |selector: &str, guard: &str| {
        format!(
            "mode: Enforce\nmatch: {{objectSelector: {selector}}}\nowners: [{{name: a, {ANN}, fields: [{guard}]}}]"
        )
    };
    let team = "{matchLabels: {team: red}}";
    for guard in
        ["{path: '.metadata.labels[\"team\"]'}", "{path: .metadata.labels}", "{path: '.metadata.labels[*]'}"]
    {
        compile("p", 1, &spec(&policy(team, guard))).unwrap();
    }
    for guard in [
        "{path: .spec}",
        "{path: '.metadata.labels[\"team\"]', mode: Warn}",
        "{path: '.metadata.labels[\"team\"]', when: 'oldObject.metadata.generation > 1'}",
    ] {
        let found = errors(&policy(team, guard));
        assert!(
            found[0].starts_with("spec.match.objectSelector: it reads .metadata.labels.team"),
            "{found:?}"
        );
    }
    let found = errors(&policy("{matchExpressions: [{key: b, operator: DoesNotExist}]}", "{path: .spec}"));
    assert!(found[0].contains(".metadata.labels.b"), "{found:?}");
    compile("p", 1, &spec(&policy("{}", "{path: .spec}"))).unwrap();
}

#[test]
fn a_selector_that_means_nothing_is_refused_with_its_place() {
    for (expression, what) in [
        ("{key: a, operator: In}", "In needs values"),
        ("{key: a, operator: Exists, values: [b]}", "Exists takes no values"),
        ("{key: a, operator: Like, values: [b]}", "unknown operator \"Like\""),
    ] {
        let found = errors(&format!(
            "match: {{namespaceSelector: {{matchExpressions: [{expression}]}}}}\nunlisted: Deny"
        ));
        assert!(found[0].starts_with("spec.match.namespaceSelector.matchExpressions[0]: "), "{found:?}");
        assert!(found[0].contains(what), "{found:?}");
    }
    let namespaces = "target: {group: '', version: v1, resource: namespaces}\n\
                      match: {namespaceSelector: {}}\nunlisted: Deny";
    let spec: FieldPolicySpec = serde_saphyr::from_str(namespaces).unwrap();
    let found = compile("p", 1, &spec).unwrap_err().to_string();
    assert!(
        found.starts_with("spec.match.namespaceSelector: ") && found.contains("objectSelector"),
        "{found}"
    );
}
