//! What holds of every policy and every write: random owners and claims over the schema of NodePool, random changes.

use std::sync::{Arc, OnceLock};

use fieldkeeper::api::FieldPolicy;
use fieldkeeper::ownership::rule::{Policy, Target};
use fieldkeeper::policy::compile::compile;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::{NODEPOOLS, Request, entry, refused, target};

/// Paths from broad to narrow, literal and not.
const PATHS: [&str; 16] = [
    ".spec",
    ".spec.minNodes",
    ".spec.maxNodes",
    ".spec.targetNodes",
    ".spec.template",
    ".spec.template.taints",
    ".spec.template.taints[*]",
    ".spec.template.taints[key=\"a\",effect=\"NoSchedule\"]",
    ".spec.template.taints[key=\"b\",effect=\"NoSchedule\"].value",
    ".spec.requested",
    ".spec.requested[*].nodes",
    ".spec.requested[requester=\"one\"]",
    ".spec.requested[requester=\"one\"].nodes",
    ".metadata.labels",
    ".metadata.labels[\"team\"]",
    ".status",
];

const CONDITIONS: [Option<&str>; 4] = [
    None,
    None,
    Some("oldObject.spec.handOff == 'Direct'"),
    Some("oldObject.spec.handOff in ['ScaleRequest', 'Requested']"),
];

/// Users of the policies; `nobody` stands for an owner without subjects.
const USERS: [&str; 4] = ["ann", "bob", "carol", "nobody"];

#[derive(Clone, Debug)]
struct Claim {
    user: &'static str,
    path: &'static str,
    condition: Option<&'static str>,
    mode: &'static str,
}

fn claim() -> impl Strategy<Value = Claim> {
    let modes = ["Enforce", "Enforce", "Warn", "Audit"];
    (select(&USERS[..]), select(&PATHS[..]), select(&CONDITIONS[..]), select(modes.to_vec()))
        .prop_map(|(user, path, condition, mode)| Claim { user, path, condition, mode })
}

/// A policy with these claims. What conditions read has an owner of its own, as the compiler demands.
#[derive(Clone, Debug)]
struct Draft {
    claims: Vec<Claim>,
    unlisted: &'static str,
    creation: &'static str,
}

fn draft() -> impl Strategy<Value = Draft> {
    let unlisted = select(vec!["Allow", "Allow", "Warn", "Deny"]);
    let creation = select(vec!["Anyone", "Owners"]);
    (proptest::collection::vec(claim(), 0..6), unlisted, creation)
        .prop_map(|(claims, unlisted, creation)| Draft { claims, unlisted, creation })
}

impl Draft {
    fn compile(&self, name: &str) -> Arc<Policy> {
        let subjects = |user: &str| match user {
            "nobody" => json!([]),
            user => json!([{"kind": "User", "name": user}]),
        };
        let mut owners =
            vec![json!({"name": "base", "subjects": subjects("ann"), "fields": [{"path": ".spec.handOff"}]})];
        for (index, claim) in self.claims.iter().enumerate() {
            let mut field = json!({"path": claim.path, "mode": claim.mode});
            if let Some(condition) = claim.condition {
                field["when"] = json!(condition);
            }
            owners.push(
                json!({"name": format!("o{index}"), "subjects": subjects(claim.user), "fields": [field]}),
            );
        }
        let policy: FieldPolicy = serde_json::from_value(json!({
            "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": name},
            "spec": {
                "target": {"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "resource": "nodepools"},
                "mode": "Enforce", "owners": owners, "unlisted": self.unlisted,
                "creation": {"policy": self.creation}, "integrity": {"coOwnership": "Enforce"},
            },
        }))
        .unwrap();
        compile(name, 1, &policy.spec).unwrap_or_else(|errors| panic!("{errors}")).into()
    }
}

/// NodePool under these policies; the schema is read once.
fn under(policies: Vec<Arc<Policy>>) -> Target {
    static KIND: OnceLock<Target> = OnceLock::new();
    Target { policies, ..KIND.get_or_init(|| target(&[NODEPOOLS])).clone() }
}

fn pool() -> impl Strategy<Value = Value> {
    let number = || proptest::option::of(0..3i64);
    let taints = proptest::collection::btree_map(select(vec!["a", "b", "c"]), 0..2u8, 0..3);
    let requested = proptest::collection::btree_map(select(vec!["one", "two"]), 0..3i64, 0..3);
    let labels = proptest::collection::btree_map(select(vec!["team", "tier"]), 0..2u8, 0..3);
    let hand_off = select(vec!["Manual", "Direct", "ScaleRequest", "Requested"]);
    (hand_off, [number(), number(), number(), number()], taints, requested, labels).prop_map(
        |(hand_off, [min, max, wanted, nodes], taints, requested, labels)| {
            let mut spec = Map::from_iter([("handOff".to_owned(), json!(hand_off))]);
            for (name, value) in [("minNodes", min), ("maxNodes", max), ("targetNodes", wanted)] {
                spec.extend(value.map(|value| (name.to_owned(), json!(value))));
            }
            let taint = |(key, value): (&str, u8)| json!({"key": key, "effect": "NoSchedule", "value": value.to_string()});
            let request = |(requester, nodes): (&str, i64)| json!({"requester": requester, "nodes": nodes});
            spec.insert("template".to_owned(), json!({"taints": taints.into_iter().map(taint).collect::<Vec<_>>()}));
            spec.insert("requested".to_owned(), requested.into_iter().map(request).collect());
            let labels: Map<_, _> = labels.into_iter().map(|(key, value)| (key.to_owned(), json!(value.to_string()))).collect();
            json!({
                "apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
                "metadata": {"name": "general", "labels": labels,
                    "managedFields": [entry("writer", "Update", "", json!({"f:spec": {"f:handOff": {}}}))]},
                "spec": spec, "status": {"nodes": nodes.unwrap_or(0)},
            })
        },
    )
}

/// A creation, or an update from one state to another.
fn write() -> impl Strategy<Value = (Option<Value>, Value)> {
    (proptest::option::weighted(0.8, pool()), pool())
}

fn refusals((old, new): &(Option<Value>, Value), user: &str, policies: Vec<Arc<Policy>>) -> Vec<String> {
    let request = old.as_ref().map_or_else(|| Request::create(new), |old| Request::update(old, new));
    refused(&request.by(user).under("writer").judge(&under(policies)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_claim_never_makes_a_write_of_its_owner_illegal(
        draft in draft(), claim in claim(), write in write(),
    ) {
        prop_assume!(claim.user != "nobody");
        let mut more = draft.clone();
        more.claims.push(claim.clone());
        let before = refusals(&write, claim.user, vec![draft.compile("p")]);
        let after = refusals(&write, claim.user, vec![more.compile("p")]);
        let new: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
        prop_assert!(new.is_empty(), "{before:?} {after:?}");
    }

    #[test]
    fn the_owner_of_the_most_specific_claim_may_write_its_field(
        draft in draft(), nodes in 0..3i64, other in 3..6i64,
    ) {
        // No claim is more specific, and an owner that closes the same path would close it.
        let path = ".spec.requested[requester=\"one\"].nodes";
        let mut more = draft.clone();
        more.claims.retain(|claim| claim.path != path);
        more.claims.push(Claim { user: "carol", path, condition: None, mode: "Enforce" });
        let state = |nodes: i64| {
            let mut pool = super::pool();
            pool["spec"]["requested"] = json!([{"requester": "one", "nodes": nodes}]);
            pool
        };
        let write = (Some(state(nodes)), state(other));
        prop_assert_eq!(refusals(&write, "carol", vec![more.compile("p")]), [""; 0]);
        prop_assert_eq!(refusals(&write, "stranger", vec![more.compile("p")]), [path]);
    }

    #[test]
    fn adding_a_policy_never_widens_access(
        first in draft(), second in draft(), write in write(), user in select(&USERS[..]),
    ) {
        let alone = refusals(&write, user, vec![first.compile("first")]);
        for both in [
            vec![first.compile("first"), second.compile("second")],
            vec![second.compile("second"), first.compile("first")],
        ] {
            let together = refusals(&write, user, both);
            prop_assert!(alone.iter().all(|path| together.contains(path)), "{alone:?} {together:?}");
        }
    }

    #[test]
    fn the_order_of_owners_does_not_matter(
        draft in draft(), write in write(), user in select(&USERS[..]),
    ) {
        let mut turned = draft.clone();
        turned.claims.reverse();
        prop_assert_eq!(
            refusals(&write, user, vec![draft.compile("p")]),
            refusals(&write, user, vec![turned.compile("p")])
        );
    }
}
