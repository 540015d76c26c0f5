//! The kinds that reviews are about: node pools as shipped, the pond that has every topology, and
//! built-in kinds without a schema.
//!
//! In: nothing but files of the repository. Out: targets. Each file is read once.

use std::sync::{Arc, OnceLock};

use fieldkeeper::api::{FieldPolicy, FieldPolicySpec, crds};
use fieldkeeper::ownership::pattern::Pattern;
use fieldkeeper::ownership::rule::{ScalePath, Target};
use fieldkeeper::ownership::schema::Schema;
use fieldkeeper::policy::compile::compile;
use serde_json::Value;

/// The time of every review, in seconds since the Unix epoch.
pub const NOW: i64 = 1_800_000_000;

const POLICY: &str = include_str!("../../../deploy/samples/nodepools-policy.yaml");
const POND: &str = include_str!("../../data/arena-crd.yaml");

/// Node pools under the shipped policy.
pub fn node_pools() -> Target {
    let policy: FieldPolicy = serde_saphyr::from_str(POLICY).expect("the shipped policy");
    let compiled = compile("nodepools", 1, &policy.spec).expect("the shipped policy compiles");
    Target { policies: vec![Arc::new(compiled)], ..target(&policy.spec) }
}

/// The target that a policy names, without policies. What is not known has a deduced schema.
pub fn target(spec: &FieldPolicySpec) -> Target {
    static SCHEMAS: OnceLock<[Arc<Schema>; 3]> = OnceLock::new();
    let [pool, pond, deduced] =
        SCHEMAS.get_or_init(|| [pool_schema(), pond_schema(), Schema::deduced()].map(Arc::new));
    let aim = &spec.target;
    let (schema, count) = match (&*aim.group, &*aim.resource) {
        ("compute.fieldkeeper.dev", "nodepools") => (pool, Some(".spec.targetNodes")),
        ("arena.example.com", "ponds") => (pond, Some(".spec.replicas")),
        ("apps", "deployments") => (deduced, Some(".spec.replicas")),
        _ => (deduced, None),
    };
    let api_version =
        if aim.group.is_empty() { aim.version.clone() } else { format!("{}/{}", aim.group, aim.version) };
    Target {
        group: aim.group.as_str().into(),
        resource: aim.resource.as_str().into(),
        version: aim.version.as_str().into(),
        any_version: false,
        schema: Arc::clone(schema),
        versions: if Arc::ptr_eq(schema, deduced) { Vec::new() } else { vec![api_version.into()] },
        scale: count.map(|path| ScalePath { replicas: Pattern::parse(path).expect("a path") }),
        sensitive: aim.group.is_empty() && aim.resource == "secrets",
        policies: Vec::new(),
    }
}

fn pool_schema() -> Schema {
    let crd = crds().into_iter().find(|crd| crd.spec.names.plural == "nodepools").expect("the kind");
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    Schema::from_crd(&serde_json::to_value(schema).expect("JSON")).expect("the schema of node pools")
}

fn pond_schema() -> Schema {
    let crd: Value = serde_saphyr::from_str(POND).expect("the kind");
    Schema::from_crd(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).expect("the schema of ponds")
}
