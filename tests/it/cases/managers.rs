//! Part B: names of managers, their entries, and who moves them.

use serde_json::{Value, json};

use super::pools::{
    autoscaler, dana, gitops, handed_over_pools, holders, manifest, oncall, pool, pool_of, pools,
    strict_pools, target, velero,
};
use crate::arena::{Call, Pond, arena};
use crate::bypasses::annotation;
use crate::decisions::{self, NODEPOOLS, Request, entry, paths, refused, with};
use crate::harness::Identity;
use fieldkeeper::ownership::rule::Mode;

const SIZE: &str = "f:spec/f:targetNodes";

/// A JSON patch that takes the entry of a manager out of `managedFields`.
async fn dropping(pool: &Pond, manager: &str) -> Value {
    let entries = pool.entries().await;
    let index = entries.iter().position(|entry| entry["manager"] == manager).unwrap();
    let at = format!("/metadata/managedFields/{index}");
    json!([{"op": "test", "path": format!("{at}/manager"), "value": manager}, {"op": "remove", "path": at}])
}

#[tokio::test]
async fn case_b06_a_migration_by_whoever_comes_first_does_not_take_the_size_along() {
    let pool = Pond::absent(pools().await, "b06").await;
    let arena = arena().await;
    let whole = pool.body(&with(manifest(), "/spec/targetNodes", json!(4))).to_string();
    arena.kubectl(&oncall(), &["apply", "-f", "-"], &whole).await.ok().unwrap();
    let label = pool.body(&json!({"metadata": {"labels": {"cost": "x"}}})).to_string();
    let apply = ["apply", "--server-side", "--field-manager=tmp", "-f", "-"];
    let output = arena.kubectl(&dana(), &apply, &label).await;
    // kubectl moves the old entry to `tmp`, as the case fears, and then lets go of all that the label's file lacks.
    // The second step is refused, which kubectl takes for a thing to try again.
    assert!(output.stderr.contains(".spec.targetNodes: 4 -> (removed)"), "{}", output.text());
    assert_eq!(pool.read().await["spec"]["targetNodes"], 4);
    assert_eq!(holders(&pool, SIZE).await, ["tmp"]);
    // Once the owner holds the size, whatever `tmp` lets go of stays.
    pool.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();
    arena.kubectl(&dana(), &apply, &label).await.ok().unwrap();
    assert_eq!(holders(&pool, SIZE).await, ["autoscaler"]);
    assert_eq!(pool.read().await["spec"]["targetNodes"], 4);
}

#[tokio::test]
async fn case_b07_nobody_but_who_breaks_the_glass_drops_an_entry_of_another() {
    let pool = pool("b07").await;
    let patch = dropping(&pool, "autoscaler").await;
    let reply = pool.json_patch(&dana(), &patch).await;
    assert_eq!(reply.reasons(), ["ManagedFieldsTampered"]);
    reply.refused(&[".spec.targetNodes"]);
    let reply = pool.json_patch(&oncall(), &patch).await;
    assert!(reply.warnings.iter().any(|warning| warning.contains("break-glass")), "{:?}", reply.warnings);
    reply.allowed();
    assert_eq!(holders(&pool, SIZE).await, [""; 0]);
    // Two are one owner in this policy: what they hold is theirs to let go of, under either name.
    pool.json_patch(&dana(), &dropping(&pool, "gitops-applier").await).await.allowed();
}

#[tokio::test]
async fn case_b09_a_renamed_manager_is_the_same_owner_and_its_old_name_nobodys_right() {
    let pool = pool("b09").await;
    pool.apply(&autoscaler(), "autoscaler-v1", &target(4)).await.allowed();
    assert_eq!(holders(&pool, SIZE).await, ["autoscaler", "autoscaler-v1"]);
    // The API server takes the two names for two parties.
    assert_eq!(pool.apply(&autoscaler(), "autoscaler", &target(5)).await.code, 409);
    pool.force(&dana(), "autoscaler-v1", &target(5)).await.refused(&[".spec.targetNodes"]);
    let drop = dropping(&pool, "autoscaler-v1").await;
    pool.json_patch(&dana(), &drop).await.refused(&[".spec.targetNodes"]);
    pool.json_patch(&autoscaler(), &drop).await.allowed();
    pool.apply(&autoscaler(), "autoscaler", &target(5)).await.allowed();
    assert_eq!(holders(&pool, SIZE).await, ["autoscaler"]);
}

#[tokio::test]
async fn case_b11_a_tool_that_creates_anew_needs_a_word_in_the_policy() {
    let mover = Identity::person("pool-mover", &[]);
    let whole = json!({"spec": {"minNodes": 2, "maxNodes": 10, "targetNodes": 4}});
    let create = |pool: &Pond| Call::create(&pool.kind.resource(), &pool.body(&whole)).manager("pool-mover");
    // By default a creation sets what its creator owns.
    let closed = Pond::absent(pools().await, "b11").await;
    closed.send(&create(&closed), &mover).await.refused(&[
        ".spec.maxNodes",
        ".spec.minNodes",
        ".spec.targetNodes",
    ]);
    // `creation.policy: Anyone` takes them as initial values, and for nothing more.
    let pool = Pond::absent(handed_over_pools().await, "b11").await;
    pool.send(&create(&pool), &mover).await.allowed();
    assert_eq!(holders(&pool, SIZE).await, ["pool-mover"]);
    pool.patch(&mover, &target(5)).await.refused(&[".spec.targetNodes"]);
    pool.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();
}

#[tokio::test]
async fn case_b12_after_a_restore_the_owner_claims_again_without_force() {
    let pool = Pond::absent(pools().await, "b12").await;
    let body = pool.body(&with(manifest(), "/spec/targetNodes", json!(4)));
    let create = Call::create(&pool.kind.resource(), &body).manager("velero-server");
    pool.send(&create, &dana()).await.refused(&[".spec.targetNodes"]);
    pool.send(&create, &velero()).await.allowed();
    assert_eq!(holders(&pool, SIZE).await, ["velero-server"]);
    pool.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();
    assert_eq!(holders(&pool, SIZE).await, ["autoscaler", "velero-server"]);
    // Restored is restored: what comes after is judged like any write.
    pool.patch(&velero(), &target(3)).await.refused(&[".spec.targetNodes"]);
    pool.patch(&autoscaler(), &target(3)).await.allowed();
}

/// An object that loses all its entries in somebody's harmless write, as some API servers do while nobody converts.
/// Of a wipe on purpose the review cannot be told apart: `integrity.mode` says which it is taken for.
#[test]
fn case_b13_a_write_that_loses_all_entries_is_refused_or_reported() {
    let old = decisions::pool();
    let new = with(old.clone(), "/metadata/labels/cost", json!("x"));
    let new = with(new, "/metadata/managedFields", Value::Null);
    let judge = |policy: &str| {
        let target = decisions::target(&[policy]);
        Request::update(&old, &new).by("dana").under("kubectl-label").judge(&target)
    };
    assert_eq!(refused(&judge(NODEPOOLS)), ["*"]);
    let audited = NODEPOOLS.replace("  integrity:\n", "  integrity:\n    mode: Audit\n");
    assert_ne!(audited, NODEPOOLS);
    let verdict = judge(&audited);
    assert_eq!((refused(&verdict).len(), paths(&verdict, Mode::Audit)), (0, vec!["*".to_owned()]));
    // With an entry of a version that the kind has no more it is the API server's doing, and noted.
    let obsolete = with(
        entry("old-tool", "Update", "", json!({"f:spec": {"f:minNodes": {}}})),
        "/apiVersion",
        json!("compute.fieldkeeper.dev/v1alpha0"),
    );
    let old = with(old.clone(), "/metadata/managedFields/-", obsolete);
    let target = decisions::target(&[NODEPOOLS]);
    let verdict = Request::update(&old, &new).by("dana").under("kubectl-label").judge(&target);
    assert_eq!((verdict.findings.len(), verdict.notes.len()), (0, 1));
}

#[tokio::test]
async fn case_b24_a_declared_manager_name_excuses_nobody() {
    let pool = pool("b24").await;
    // The policy declares the name, as one that the autoscaler writes under.
    let call = Call::merge_patch(&pool.at(""), &target(1)).manager("kube-controller-manager");
    pool.send(&call, &dana()).await.refused(&[".spec.targetNodes"]);
    pool.send(&call, &gitops()).await.refused(&[".spec.targetNodes"]);
    pool.send(&call, &autoscaler()).await.allowed();
}

#[tokio::test]
async fn case_b30_a_put_from_a_cache_without_managed_fields_is_nothing_special() {
    let pool = pool("b30").await;
    let before = pool.entries().await;
    let body = with(pool.read().await, "/metadata/managedFields", Value::Null);
    let body = with(body, "/metadata/labels", json!({"cost": "x"}));
    let reply = pool.send(&Call::put(&pool.at(""), &body).manager("cache"), &dana()).await;
    assert_eq!(reply.warnings, [""; 0]);
    reply.allowed();
    let after = pool.entries().await;
    assert!(before.iter().all(|entry| after.contains(entry)), "{after:?}");
    assert_eq!(after.len(), before.len() + 1, "{after:?}");
}

/// By default the name is a hint. With `use: Reserve` a borrowed one is told, or refused where that is enforced.
#[tokio::test]
async fn case_e07_the_record_names_the_user_and_not_the_manager_that_it_claims() {
    let pool = pool_of(strict_pools().await, "e07").await;
    let label = json!({"metadata": {"labels": {"cost": "x"}}});
    let call = Call::merge_patch(&pool.at(""), &label);
    let reply = pool.send(&call.clone().manager("autoscaler"), &dana()).await;
    assert_eq!(reply.reasons(), ["FieldManagerReserved"]);
    let words = r#"field manager "autoscaler" is reserved for autoscaler"#;
    assert!(reply.message().contains(words), "{}", reply.message());
    reply.refused(&[""]);
    let noted = annotation(&pool, "dana", "denied").await;
    assert!(noted.contains(words), "{noted}");
    // On trial, as the name of netops is here, it passes and the record says so.
    pool.send(&call.manager("nora"), &dana()).await.allowed();
    let noted = annotation(&pool, "dana", "would-deny").await;
    assert!(noted.contains(r#"field manager "nora" is reserved for netops"#), "{noted}");
}

#[tokio::test]
async fn case_e08_whoever_may_impersonate_the_owner_is_the_owner() {
    let pool = pool("e08").await;
    // Who is behind it stands in the API server's audit log alone: no review tells.
    let impersonated = Identity::impersonated(&autoscaler().username(), &[]);
    pool.patch(&impersonated, &target(5)).await.allowed();
    let event = arena().await.plane.audit_event("of an impersonation", |event| {
        event.object_ref.name == "e08" && event.impersonated_user.is_some()
    });
    let event = event.await.unwrap();
    assert_eq!((event.user.username.as_str(), event.actor()), ("admin", autoscaler().username().as_str()));
    let other = Identity::impersonated("dana", &[]);
    pool.patch(&other, &target(6)).await.refused(&[".spec.targetNodes"]);
}
