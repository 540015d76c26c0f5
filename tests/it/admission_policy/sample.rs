//! What the shipped sample policy becomes: which of its claims have rules, and what is left to the webhook.

use std::collections::BTreeSet;

use fieldkeeper::ownership::pattern::Pattern;
use fieldkeeper::policy::export_vap::{Action, Facts, generate};

use crate::decisions::{NODEPOOLS, target};

#[test]
fn of_the_shipped_sample_only_lists_and_what_no_value_shows_are_left_out() {
    let target = target(&[NODEPOOLS]);
    let facts = Facts {
        target: &target,
        schema_known: true,
        subresources: &["status", "scale"],
        custom: true,
        excluded_namespaces: &BTreeSet::new(),
        action: Action::Deny,
    };
    let generated = generate(&target.policies[0], &facts);
    let left_out: Vec<String> = generated.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        [
            "conditions that cannot be evaluated, where the webhook refuses as undecided",
            "integrity of managedFields, co-ownership and reserved field manager names",
            ".metadata.finalizers[=\"compute.fieldkeeper.dev/nodepool\"]: a second item of the same value, where the \
             kind lets one be",
            ".spec.provider.simulated.capacity: whether it is absent or there and empty",
            ".spec.requested: items of a keyed list that no claim names",
            ".spec.targetNodes: through /scale: a condition reads the object, which a Scale does not show",
            ".spec.template.annotations: whether it is absent or there and empty",
            ".spec.template.labels: whether it is absent or there and empty",
            ".spec.template.taints: items of a keyed list that no claim names",
            ".status.conditions: items of a keyed list that no claim names",
        ]
    );
    let covered = |path: &str| {
        let path = Pattern::parse(path).unwrap().literal_path().unwrap();
        generated.covered.iter().any(|covered| covered.is(path.elements()))
    };
    for path in [
        ".spec.handOff",
        ".spec.targetNodes",
        ".spec.template.labels.any",
        ".spec.requested[requester=\"autoscaler\"]",
        ".spec.requested[requester=\"autoscaler\"].nodes",
        ".metadata.finalizers[=\"compute.fieldkeeper.dev/nodepool\"]",
        ".status.targetNodes",
    ] {
        assert!(covered(path), "{path}");
    }
    assert!(!covered(".spec.requested[requester=\"gitops\"].nodes"));
    assert!(!covered(".metadata.labels.any"), "nobody claims it");
}
