//! The text that people read.

use serde_json::{Value, json};

use super::{NODEPOOLS, Request, pool, target, with};

#[test]
fn a_denial_names_requester_object_field_values_owner_policy_and_a_way_that_works() {
    let new = with(pool(), "/spec/targetNodes", json!(2));
    let answer =
        Request::update(&pool(), &new).by("alice").under("kubectl-patch").answer(&target(&[NODEPOOLS]));
    assert_eq!(
        answer.message,
        "user \"alice\" may not change 1 field of NodePool \"general\"\n  \
         .spec.targetNodes: 5 -> 2\n    \
         owner:   autoscaler (ServiceAccount fieldkeeper-system/autoscaler)\n    \
         policy:  nodepools\n    \
         set by:  field manager autoscaler (Apply)\n    \
         note:    no entry of managedFields records it: perhaps a mutating webhook changed it, not your request\n    \
         instead: send the field unchanged, or leave it out of what you apply; its owner can change it"
    );
    assert_eq!(answer.causes.len(), 1);
    assert_eq!(answer.causes[0].reason, "FieldOwnedByAnother");
    assert_eq!(answer.causes[0].field, ".spec.targetNodes");
}

#[test]
fn sensitive_values_are_never_printed() {
    let sensitive = NODEPOOLS.replace("    - path: .spec\n", "    - path: .spec\n      sensitive: true\n");
    let new = with(pool(), "/spec/minNodes", json!(4242));
    let mut hidden = target(&[NODEPOOLS]);
    hidden.sensitive = true;
    for target in [target(&[&sensitive]), hidden] {
        let answer = Request::update(&pool(), &new).by("alice").answer(&target);
        let text = format!("{answer:?}");
        assert!(text.contains("(hidden) -> (hidden)") && !text.contains("4242"), "{text}");
    }
}

/// Whoever cannot read the object may still try to write it, and would read its values in the answer.
#[test]
fn what_one_claim_calls_sensitive_is_printed_for_no_other() {
    let policy = |name: &str, claims: &str| {
        format!(
            "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
             target: {{group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}}\n  mode: Enforce\n  \
             owners: [{{name: a, subjects: [{{kind: User, name: ann}}], fields: [{claims}]}}]\n"
        )
    };
    let list = policy("list", "{path: .spec.steps}");
    let whole_item = policy("item", "{path: '.spec.steps[name=\"a\"]', sensitive: true}");
    let part = "{path: '.spec.steps[name=\"a\"].token', sensitive: true}";
    let steps = |token: Option<&str>| match token {
        Some(token) => json!([{"name": "a", "token": token}, {"name": "b"}]),
        None => json!([{"name": "b"}]),
    };
    let old = with(pool(), "/spec/steps", steps(Some("s3cret")));
    for policies in [
        &[&*list, &*whole_item] as &[&str],
        &[&whole_item, &list],
        &[&list, &policy("part", part)],
        &[&policy("both", &format!("{{path: '.spec.steps[name=\"a\"]'}}, {part}"))],
        &[&policy("list-and-part", &format!("{{path: .spec.steps}}, {part}"))],
    ] {
        let mut target = target(policies);
        target.schema = fieldkeeper::ownership::schema::Schema::deduced().into();
        for new in [steps(Some("new")), steps(None)] {
            let new = with(old.clone(), "/spec/steps", new);
            let answer = Request::update(&old, &new).by("alice").answer(&target);
            let text = format!("{answer:?}");
            assert!(text.contains("(hidden)") && !text.contains("s3cret"), "{policies:?}\n{text}");
        }
    }
    let [plain, secret] = ["", ", sensitive: true"]
        .map(|word| policy(&format!("p{}", word.len()), &format!("{{path: .spec.minNodes{word}}}")));
    let new = with(pool(), "/spec/minNodes", json!(4242));
    let answer = Request::update(&pool(), &new).by("alice").answer(&target(&[&plain, &secret]));
    assert!(!format!("{answer:?}").contains("4242"), "{answer:?}");
}

#[test]
fn an_answer_stays_bounded_however_many_fields_are_refused() {
    let mut new = pool();
    let long = "x".repeat(5_000);
    for index in 0..2_000 {
        new["spec"]["template"]["labels"][format!("{long}{index}")] = Value::String(long.clone());
    }
    let answer = Request::update(&pool(), &new).by("alice").answer(&target(&[NODEPOOLS]));
    assert!(answer.message.len() < 8_192, "{}", answer.message.len());
    assert!(answer.message.ends_with("and 1990 more"), "{}", answer.message);
    assert!(answer.causes.len() <= 50);
    assert!(answer.annotations.iter().all(|(_, value)| value.len() <= 4_096));
    let warn = NODEPOOLS.replace("mode: Enforce", "mode: Warn");
    let answer = Request::update(&pool(), &new).by("alice").answer(&target(&[&warn]));
    assert!(answer.message.is_empty());
    assert!(answer.warnings.iter().all(|warning| warning.chars().count() <= 256));
    assert!(answer.warnings.iter().map(String::len).sum::<usize>() < 4_096);
}
