//! Further kinds of the arena: the same schema under another name, with a policy of its own.

use serde_json::{Value, json};

use super::{Arena, Call, alice};
use crate::harness::eventually;

const CRD: &str = include_str!("../../data/arena-crd.yaml");

/// The policy of the arena with other text in some places.
///
/// Each place must be there, or a test would run under another policy than it says.
#[track_caller]
pub fn policy(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(include_str!("../../data/arena-policy.yaml").to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the arena's policy does not say {from:?}");
        text.replace(from, to)
    })
}

/// A kind of the arena's group, by its plural name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub plural: String,
    pub kind: String,
}

impl Kind {
    /// The one under everything switched on.
    pub fn ponds() -> Self {
        Self::named("ponds")
    }

    fn named(plural: &str) -> Self {
        let singular = plural.strip_suffix('s').unwrap();
        let (first, rest) = singular.split_at(1);
        Self { plural: plural.to_owned(), kind: format!("{}{rest}", first.to_uppercase()) }
    }

    /// An object of this kind with this `spec`.
    pub fn object(&self, name: &str, spec: &Value) -> Value {
        let mut object =
            json!({"apiVersion": "arena.example.com/v1", "kind": self.kind, "metadata": {"name": name}});
        if spec.as_object().is_some_and(|spec| !spec.is_empty()) {
            object["spec"] = spec.clone();
        }
        object
    }

    /// The CRD of the arena for this kind.
    pub fn crd(&self) -> String {
        let Self { plural, kind } = self;
        let names = format!("{{kind: {kind}, plural: {plural}, singular: {}}}", kind.to_lowercase());
        CRD.replace("{kind: Pond, plural: ponds, singular: pond}", &names)
            .replace("name: ponds.", &format!("name: {plural}."))
    }
}

impl Arena {
    /// A fresh kind of this plural name under this policy, which is written for `ponds` and renamed here. It must
    /// have something against a stranger who creates an object with a size: that shows when it is in force.
    pub async fn kind(&self, plural: &str, policy: &str) -> Kind {
        let kind = Kind::named(plural);
        self.plane.apply(&kind.crd()).await.unwrap();
        let policy = policy
            .replace("\n  name: ponds\n", &format!("\n  name: {plural}\n"))
            .replace("resource: ponds}", &format!("resource: {plural}}}"));
        self.enforce(&policy, plural).await;
        let probe = kind.object("probe", &json!({"size": "S"}));
        let (call, alice) = (Call::create(plural, &probe).dry_run(), alice());
        let noticed = async || {
            let reply = self.send(&call, &alice).await;
            let warned = reply.warnings.iter().any(|warning| warning.contains("FieldPolicy"));
            (reply.is_refused() || warned).then_some(())
        };
        eventually(&format!("the policy on {plural} to be in force"), super::PATIENCE, noticed)
            .await
            .unwrap();
        kind
    }
}
