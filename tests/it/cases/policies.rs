//! Parts B and E: what a policy can say, and what beside it.

use serde_json::{Value, json};

use super::pools::{
    autoscaler, dana, gitops, handed_over_pools, manifest, node_pools, nodepool_controller, owners, pool,
    pool_of, pools, sizeless, strict_pools, target, under,
};
use crate::arena::{Call, Kind, PATIENCE, Pond, alice, arena, mutator};
use crate::bypasses::annotation;
use crate::decisions::with;
use crate::harness::{Identity, eventually};

/// Two policies are judged one by one, so that neither can widen the other: a second owner is warned of when its
/// policy is written, naming both, and refused when it writes. The case would refuse the policy itself.
#[tokio::test]
async fn case_b27_two_policies_for_one_field_are_told_of_each_other_and_let_neither_owner_write() {
    let kind = under("contestedpools", owners(json!({}))).await;
    let pool = pool_of(&kind, "b27").await;
    let second = json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy",
        "metadata": {"name": "second-contested"},
        "spec": {"mode": "Enforce",
            "target": {"group": "arena.example.com", "version": "v1", "resource": kind.plural},
            "owners": [{"name": "gitops", "fields": [{"path": ".spec.targetNodes"}],
                "subjects": [{"kind": "ServiceAccount", "namespace": "gitops", "name": "applier"}]}]}});
    let args = ["apply", "--server-side", "-f", "-"];
    let output = arena().await.kubectl(&Identity::admin(), &args, &second.to_string()).await;
    let said = "policy contestedpools names other owners for .spec.targetNodes: each policy refuses the owners of the other";
    assert!(output.success && output.stderr.contains(said), "{}", output.text());
    let call = Call::merge_patch(&pool.at(""), &target(5));
    arena().await.until_refused(&call.clone().dry_run(), &autoscaler()).await;
    let mut policies = Vec::new();
    for who in [autoscaler(), gitops()] {
        let reply = pool.send(&call, &who).await;
        let policy = reply.message().lines().find_map(|line| line.trim().strip_prefix("policy:"));
        policies.push(policy.unwrap().trim().to_owned());
        reply.refused(&[".spec.targetNodes"]);
    }
    assert_eq!(policies, ["second-contested", "contestedpools"]);
}

#[tokio::test]
async fn case_b28_the_mode_binds_every_writer_our_own_controller_too() {
    let pool = sizeless(handed_over_pools().await, "b28").await;
    pool.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();
    pool.patch(&nodepool_controller(), &target(3)).await.refused(&[".spec.targetNodes"]);
    pool.patch(&dana(), &json!({"spec": {"handOff": "ScaleRequest"}})).await.allowed();
    for who in [nodepool_controller(), autoscaler(), dana(), gitops()] {
        let reply = pool.force(&who, "any", &target(3)).await;
        assert_eq!(reply.reasons(), ["FieldClosed"], "{who:?}");
        assert!(reply.message().contains("instead: create a ScaleRequest"), "{}", reply.message());
        reply.refused(&[".spec.targetNodes"]);
        pool.scale(&who, 3).await.refused(&[".spec.targetNodes"]);
    }
    assert_eq!(pool.read().await["spec"]["targetNodes"], 4);
}

#[tokio::test]
async fn case_b32_a_delegate_may_lower_the_size_while_a_person_says_so_and_the_autoscaler_waits() {
    let pool = sizeless(handed_over_pools().await, "b32").await;
    let sleeper = Identity::person("sleeper", &[]);
    pool.patch(&autoscaler(), &target(4)).await.allowed();
    pool.patch(&sleeper, &target(2)).await.refused(&[".spec.targetNodes"]);
    // Who may open the window is a rule of its own.
    let delegate = |name: Value| json!({"spec": {"delegate": name}});
    pool.patch(&sleeper, &delegate(json!("sleeper"))).await.refused(&[".spec.delegate"]);
    pool.patch(&dana(), &delegate(json!("sleeper"))).await.allowed();
    pool.patch(&sleeper, &target(2)).await.allowed();
    pool.patch(&autoscaler(), &target(4)).await.refused(&[".spec.targetNodes"]);
    pool.patch(&dana(), &delegate(Value::Null)).await.allowed();
    pool.patch(&sleeper, &target(1)).await.refused(&[".spec.targetNodes"]);
    pool.patch(&autoscaler(), &target(4)).await.allowed();
}

/// What a mutating webhook does to a request passes where it is proven, by default. A field that lists its `mutators`
/// lets no other pass, as in the case.
#[tokio::test]
async fn case_b33_a_refusal_says_that_a_mutating_webhook_may_have_done_it() {
    let label = json!({"metadata": {"labels": {"cost": "x"}}});
    let more = json!([{"op": "replace", "path": "/spec/targetNodes", "value": 5}]);

    let pool = pool_of(strict_pools().await, "b33-listed").await;
    mutator(&pool, &dana(), &more).await;
    let reply = pool.patch(&dana(), &label).await;
    assert!(reply.message().contains("perhaps a mutating webhook changed it"), "{}", reply.message());
    reply.refused(&[".spec.targetNodes"]);

    let pool = pool_of(pools().await, "b33-unlisted").await;
    mutator(&pool, &dana(), &more).await;
    pool.patch(&dana(), &label).await.allowed();
    let noted = annotation(&pool, "dana", "tolerated").await;
    assert!(noted.contains(".spec.targetNodes: changed by a mutating webhook"), "{noted}");
}

#[tokio::test]
async fn case_e12_a_hand_written_policy_in_cel_agrees_on_the_object_and_does_not_see_its_scale() {
    let kind = Kind::cluster_wide("celpools");
    kind.define(node_pools).await;
    let name = "size-of-celpools";
    let owner = autoscaler().username();
    // Null and absence are where such policies trip: hence the optional fields.
    let size = "object.?spec.?targetNodes == oldObject.?spec.?targetNodes";
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["arena.example.com"], "apiVersions": ["v1"],
                "operations": ["UPDATE"], "resources": [kind.plural]}]},
            "validations": [{"expression": format!("request.userInfo.username == '{owner}' || {size}"),
                "message": "the size is the autoscaler's"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    for object in [policy, binding] {
        arena().await.plane.apply(&object.to_string()).await.unwrap();
    }
    let by_cel = sizeless(&kind, "e12").await;
    by_cel.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();
    let in_force = async || {
        let reply = by_cel.send(&Call::merge_patch(&by_cel.at(""), &target(9)).dry_run(), &alice()).await;
        (reply.code == 422).then_some(())
    };
    eventually("the policy in CEL to be in force", PATIENCE, in_force).await.unwrap();
    let by_us = sizeless(pools().await, "e12").await;
    by_us.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();

    let mut answers = Vec::new();
    for pool in [&by_cel, &by_us] {
        let put =
            async |nodes: i64| pool.put(&dana(), &pool.edited("/spec/targetNodes", json!(nodes)).await).await;
        let whole = with(manifest(), "/spec/targetNodes", json!(4));
        let other = with(manifest(), "/spec/targetNodes", json!(5));
        let prefix = Identity::service_account("np-system", "autoscaler2");
        let suffix = Identity::person("xsystem:serviceaccount:np-system:autoscaler", &[]);
        let replies = [
            // A16, without what only the server says to a version that is missing.
            put(5).await,
            put(4).await,
            // B01
            pool.apply(&gitops(), "gitops-applier", &other).await,
            pool.force(&gitops(), "gitops-applier", &other).await,
            pool.force(&gitops(), "gitops-applier", &whole).await,
            pool.apply(&gitops(), "gitops-applier", &manifest()).await,
            // C35
            pool.patch(&prefix, &target(5)).await,
            pool.patch(&suffix, &target(5)).await,
            pool.patch(&autoscaler(), &target(5)).await,
        ];
        let words = |reply: crate::arena::Reply| match reply.code {
            200 => "allowed",
            409 => "conflict",
            403 | 422 => "refused",
            _ => panic!("{} {}", reply.code, reply.body),
        };
        answers.push(replies.map(words));
    }
    let (refused, allowed) = ("refused", "allowed");
    let expected = [refused, allowed, "conflict", refused, allowed, allowed, refused, refused, allowed];
    assert_eq!(answers, [expected, expected]);
    // Where CEL needs a second rule, on another kind of object.
    by_cel.scale(&dana(), 9).await.allowed();
    by_us.scale(&dana(), 9).await.refused(&[".spec.targetNodes"]);
}

/// Set once: closed as soon as it is set. On creation conditions read the new object, so a creation that sets the field
/// is closed too, unless `creation.policy` is Anyone, as here.
#[tokio::test]
async fn case_e13_a_field_can_be_set_once() {
    let pool = Pond::absent(handed_over_pools().await, "e13").await;
    pool.apply(&dana(), "dana", &json!({"spec": {"minNodes": 2}})).await.allowed();
    let kind = |kind: Value| json!({"spec": {"instanceType": kind}});
    pool.patch(&alice(), &kind(json!("m.large"))).await.refused(&[".spec.instanceType"]);
    pool.patch(&dana(), &kind(json!("m.large"))).await.allowed();
    for other in [json!("m.small"), Value::Null] {
        let reply = pool.patch(&dana(), &kind(other)).await;
        assert_eq!(reply.reasons(), ["FieldClosed"]);
        reply.refused(&[".spec.instanceType"]);
    }
    assert_eq!(pool.read().await["spec"]["instanceType"], "m.large");
    let made = sizeless(handed_over_pools().await, "e13-made").await;
    made.patch(&gitops(), &kind(json!("m.small"))).await.refused(&[".spec.instanceType"]);
}

/// The annotation is claimed in mode Audit here, as in the case; that it can be refused is a matter of its mode.
#[tokio::test]
async fn case_e14_a_tool_that_overwrites_the_last_applied_annotation_is_reported() {
    let pool = pool("e14").await;
    let tool = Identity::service_account("tools", "labeler");
    let labelled = |label: &str| pool.body(&json!({"metadata": {"labels": {label: "x"}}})).to_string();
    let apply = ["apply", "-f", "-"];
    arena().await.kubectl(&dana(), &apply, &labelled("cost")).await.ok().unwrap();
    arena().await.kubectl(&tool, &apply, &labelled("tool")).await.ok().unwrap();
    let noted = annotation(&pool, &tool.username(), "would-deny").await;
    assert!(noted.contains("last-applied-configuration"), "{noted}");
    // The label that it took away is a path like any other, and nobody's in this policy.
    assert_eq!(pool.read().await["metadata"]["labels"], json!({"tool": "x"}));
}
