//! What is wanted against what there is.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::controllers::policy::generated::Seen;
use crate::ownership::rule::Target;
use crate::ownership::schema::Schema;
use crate::policy::compile::compile;

fn generated(name: &str, action: Action) -> Wanted {
    let spec = serde_json::from_value(json!({
        "target": {"group": "example.com", "version": "v1", "resource": "things"}, "mode": "Enforce",
        "owners": [{"name": "o", "subjects": [{"kind": "User", "name": "u"}], "fields": [{"path": ".spec.count"}]}],
    }))
    .unwrap();
    let policy = compile(name, 1, &spec).unwrap();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"count": {"type": "integer"}}}}});
    let target = Target {
        group: "example.com".into(),
        resource: "things".into(),
        version: "v1".into(),
        any_version: false,
        schema: Arc::new(Schema::from_crd(&schema).unwrap()),
        versions: Vec::new(),
        scale: None,
        sensitive: false,
        policies: Vec::new(),
    };
    let facts = Facts {
        target: &target,
        schema_known: true,
        subresources: &[],
        custom: true,
        excluded_namespaces: &BTreeSet::new(),
        action,
    };
    Wanted { generated: Some(export_vap::generate(&policy, &facts)), action }
}

fn live(wanted: &[&Wanted]) -> Generated {
    let objects =
        || wanted.iter().map(|wanted| wanted.generated.as_ref().unwrap().objects.as_deref().unwrap());
    let policies =
        objects().map(|(policy, _)| (policy.metadata.name.clone().unwrap(), policy.clone())).collect();
    let bindings =
        objects().map(|(_, binding)| (binding.metadata.name.clone().unwrap(), binding.clone())).collect();
    Generated {
        policies: Seen { objects: Some(policies), error: None },
        bindings: Seen { objects: Some(bindings), error: None },
    }
}

fn names(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(Step::name).collect()
}

fn of(wanted: &Wanted) -> BTreeMap<String, Wanted> {
    BTreeMap::from([("p".to_owned(), wanted.clone())])
}

#[test]
fn only_what_differs_is_written() {
    let deny = generated("p", Action::Deny);
    assert_eq!(names(&steps(&of(&deny), &live(&[]))), ["write policy", "write binding"]);
    let mut there = live(&[&deny]);
    assert!(steps(&of(&deny), &there).is_empty());
    assert_eq!(names(&steps(&of(&generated("p", Action::Audit)), &there)), ["write binding"]);
    // What others add is theirs; what they change is not.
    let policy = there.policies.objects.as_mut().unwrap().values_mut().next().unwrap();
    policy.metadata.labels.as_mut().unwrap().insert("some".to_owned(), "label".to_owned());
    assert!(steps(&of(&deny), &there).is_empty());
    let policy = there.policies.objects.as_mut().unwrap().values_mut().next().unwrap();
    policy.spec.as_mut().unwrap().validations = Some(Vec::new());
    assert_eq!(names(&steps(&of(&deny), &there)), ["write policy"]);
}

#[test]
fn what_nobody_wants_goes_binding_first() {
    let deny = generated("p", Action::Deny);
    let steps = steps(&BTreeMap::new(), &live(&[&deny]));
    assert_eq!(names(&steps), ["delete binding", "delete policy"]);
    assert!(steps.iter().all(|step| step.policy() == "p"));
}

#[test]
fn nothing_is_done_about_what_is_not_known() {
    let deny = generated("p", Action::Deny);
    let unknown = Wanted { generated: None, action: Action::Deny };
    assert!(steps(&of(&unknown), &live(&[&deny])).is_empty(), "its rule stays while its kind is not known");
    assert!(steps(&of(&deny), &Generated::default()).is_empty());
}
