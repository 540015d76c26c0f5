//! A kind of a test's own: the arena's CRD and policy under another plural, changed where the test needs it.

use serde_json::{Value, json};

use super::{Arena, Call, PATIENCE, admin, alice, arena};
use crate::harness::eventually;

const POLICY: &str = include_str!("../../data/arena-policy.yaml");

/// A kind in the arena's group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub plural: String,
    namespace: Option<String>,
}

/// The policy of the arena with other text in some places.
///
/// Each place must be there, or a test would run under another policy than it says.
#[track_caller]
pub fn policy(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(POLICY.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the arena's policy does not say {from:?}");
        text.replace(from, to)
    })
}

/// Defines a kind and puts it under the arena's policy as `policy` leaves it.
pub async fn kind(plural: &str, policy: impl FnOnce(String) -> String) -> Kind {
    let kind = Kind::cluster_wide(plural);
    kind.define(|_| {}).await;
    kind.enforce(policy).await;
    kind
}

impl Kind {
    /// That of `tests/data/arena-crd.yaml` itself.
    pub fn ponds() -> Self {
        Self::cluster_wide("ponds")
    }

    pub fn cluster_wide(plural: &str) -> Self {
        Self { plural: plural.to_owned(), namespace: None }
    }

    /// Its objects are in this namespace.
    pub fn in_namespace(plural: &str, namespace: &str) -> Self {
        Self { plural: plural.to_owned(), namespace: Some(namespace.to_owned()) }
    }

    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// As paths have it: with the namespace.
    pub fn resource(&self) -> String {
        self.namespace.as_ref().map_or_else(
            || self.plural.clone(),
            |namespace| format!("namespaces/{namespace}/{}", self.plural),
        )
    }

    /// `Pond` for `ponds`.
    pub fn kind(&self) -> String {
        let (first, rest) = self.plural.trim_end_matches('s').split_at(1);
        first.to_uppercase() + rest
    }

    /// An object of this kind with these fields.
    pub fn object(&self, name: &str, fields: &Value) -> Value {
        let mut object = json!({"apiVersion": "arena.example.com/v1", "kind": self.kind(), "metadata": {}});
        super::pond::merge(&mut object, fields);
        object["metadata"]["name"] = json!(name);
        object
    }

    /// The CRD, as `change` leaves it.
    pub fn crd(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut crd: Value = serde_saphyr::from_str(include_str!("../../data/arena-crd.yaml")).unwrap();
        let singular = self.kind().to_lowercase();
        crd["metadata"]["name"] = json!(format!("{}.arena.example.com", self.plural));
        crd["spec"]["names"] = json!({"kind": self.kind(), "plural": self.plural, "singular": singular});
        if self.namespace.is_some() {
            crd["spec"]["scope"] = json!("Namespaced");
        }
        change(&mut crd);
        crd
    }

    /// Writes the CRD, for the first time or again, and waits until each of its versions is served.
    pub async fn define(&self, change: impl FnOnce(&mut Value)) {
        let arena = arena().await;
        let crd = self.crd(change);
        arena.plane.apply(&crd.to_string()).await.unwrap();
        if let Some(namespace) = &self.namespace {
            arena.plane.ensure_namespace(namespace).await.unwrap();
        }
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let list = Call::get(&self.resource()).version(version["name"].as_str().unwrap());
            let served = async || (arena.send(&list, &admin()).await.code == 200).then_some(());
            eventually(&format!("{} to be served", self.plural), PATIENCE, served).await.unwrap();
        }
    }

    /// Writes the arena's policy for this kind, as `change` leaves it, and waits until it is in force:
    /// strangers must not create an object with a size.
    pub async fn enforce(&self, change: impl FnOnce(String) -> String) {
        let arena = arena().await;
        let policy = POLICY
            .replace("  name: ponds\n", &format!("  name: {}\n", self.plural))
            .replace("resource: ponds}", &format!("resource: {}}}", self.plural));
        arena.enforce(&change(policy), &self.plural).await;
        let probe = self.object("probe", &json!({"spec": {"size": "S"}}));
        arena.until_refused(&Call::create(&self.resource(), &probe).dry_run(), &alice()).await;
    }
}

impl Arena {
    /// A fresh kind of this plural name under this policy, which is written for `ponds` and renamed here. It must
    /// have something against a stranger who creates an object with a size: that shows when it is in force.
    pub async fn kind(&self, plural: &str, policy: &str) -> Kind {
        let kind = Kind::cluster_wide(plural);
        kind.define(|_| {}).await;
        let policy = policy
            .replace("\n  name: ponds\n", &format!("\n  name: {plural}\n"))
            .replace("resource: ponds}", &format!("resource: {plural}}}"));
        self.enforce(&policy, plural).await;
        let probe = kind.object("probe", &json!({"spec": {"size": "S"}}));
        let (call, alice) = (Call::create(plural, &probe).dry_run(), alice());
        let noticed = async || {
            let reply = self.send(&call, &alice).await;
            let warned = reply.warnings.iter().any(|warning| warning.contains("FieldPolicy"));
            (reply.is_refused() || warned).then_some(())
        };
        eventually(&format!("the policy on {plural} to be in force"), PATIENCE, noticed).await.unwrap();
        kind
    }

    /// The minor version of the API server: `37` of 1.37.
    pub async fn minor(&self) -> u32 {
        let version = self.send(&Call::get("").at("/version"), &admin()).await.allowed();
        version["minor"].as_str().unwrap().trim_end_matches('+').parse().unwrap()
    }

    /// What the object that `ask` reads is in the end, when `ready` says so.
    pub async fn until<T>(&self, what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
        // The garbage collector looks for new kinds every 30 seconds.
        eventually(what, 4 * PATIENCE, || ask()).await.unwrap()
    }
}
