//! A random policy, as an object for the API server and as plain data for the judge.
//!
//! Input: random numbers. Output: [`Policy`]. Must not: make one that the product has to refuse.

use serde_json::{Value, json};

use super::generator::Random;
use super::judge::{Elem, Step, render};

/// Somebody who writes.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub name: &'static str,
    pub group: Option<&'static str>,
}

/// Two of them share a group.
pub const PEOPLE: [Who; 4] = [
    Who { name: "ann", group: Some("red") },
    Who { name: "bob", group: Some("red") },
    Who { name: "cid", group: Some("blue") },
    Who { name: "dan", group: None },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    User(&'static str),
    Group(&'static str),
}

impl Who {
    pub fn is_one_of(&self, subjects: &[Subject]) -> bool {
        subjects.iter().any(|subject| match subject {
            Subject::User(name) => self.name == *name,
            Subject::Group(name) => self.group == Some(*name),
        })
    }
}

const SUBJECTS: [Subject; 6] = [
    Subject::User("ann"),
    Subject::User("bob"),
    Subject::User("cid"),
    Subject::User("dan"),
    Subject::Group("red"),
    Subject::Group("blue"),
];

/// A condition on `.spec.mode`, where absent is null.
#[derive(Clone, Debug)]
pub enum When {
    Is(&'static str),
    IsNot(&'static str),
    In(Vec<&'static str>),
    Has,
}

impl When {
    fn text(&self) -> String {
        let mode = "oldObject.spec.mode";
        match self {
            Self::Is(value) => format!("{mode} == '{value}'"),
            Self::IsNot(value) => format!("{mode} != '{value}'"),
            Self::In(values) => format!("{mode} in ['{}']", values.join("', '")),
            Self::Has => format!("has({mode})"),
        }
    }

    pub fn holds(&self, object: &Value) -> bool {
        let mode = object["spec"]["mode"].as_str();
        match self {
            Self::Is(value) => mode == Some(*value),
            Self::IsNot(value) => mode != Some(*value),
            Self::In(values) => mode.is_some_and(|mode| values.contains(&mode)),
            Self::Has => mode.is_some(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Owner {
    pub name: String,
    /// None at all: nobody may write.
    pub subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub owner: usize,
    pub steps: Vec<Step>,
    pub when: Option<When>,
}

#[derive(Clone, Debug)]
pub struct Policy {
    pub owners: Vec<Owner>,
    pub claims: Vec<Claim>,
    pub creation_owners: bool,
    pub deletion: Option<Vec<Subject>>,
    pub unlisted_deny: bool,
}

/// Every topology, and paths that lie inside each other. `*` is any item, `k:` an item of the taints, `v:` a member
/// of a set, `n:` a rule by name.
const PATHS: &[&[&str]] = &[
    &["spec"],
    &["spec", "size"],
    &["spec", "mode"],
    &["spec", "shape"],
    &["spec", "note"],
    &["spec", "replicas"],
    &["spec", "replicas"],
    &["spec", "limits"],
    &["spec", "limits", "cpu"],
    &["spec", "limits", "*"],
    &["spec", "labels"],
    &["spec", "labels", "a.b/c"],
    &["spec", "labels", "*"],
    &["spec", "taints"],
    &["spec", "taints", "*"],
    &["spec", "taints", "k:a"],
    &["spec", "taints", "*", "value"],
    &["spec", "taints", "k:a", "value"],
    &["spec", "zones"],
    &["spec", "zones", "*"],
    &["spec", "zones", "v:a"],
    &["spec", "args"],
    &["spec", "rules"],
    &["spec", "rules", "n:web"],
    &["spec", "window"],
    &["spec", "window", "from"],
    &["spec", "free"],
    &["spec", "free", "deep"],
    &["spec", "free", "deep", "a"],
    &["data"],
    &["data", "k"],
    &["data", "*"],
    &["status"],
    &["status", "phase"],
    &["status", "replicas"],
    &["metadata", "labels"],
    &["metadata", "labels", "x"],
    &["metadata", "annotations", "note"],
    &["metadata", "finalizers", "v:arena.example.com/fin"],
];

fn step(text: &str) -> Step {
    let quoted = |value: &str| json!(value).to_string();
    let item = |keys: &[(&str, &str)]| {
        Elem::Item(keys.iter().map(|(key, value)| ((*key).to_owned(), quoted(value))).collect())
    };
    match text.split_once(':') {
        _ if text == "*" => None,
        Some(("k", key)) => Some(item(&[("effect", "NoSchedule"), ("key", key)])),
        Some(("n", name)) => Some(item(&[("name", name)])),
        Some(("v", value)) => Some(Elem::Member(quoted(value))),
        _ => Some(Elem::Field(text.to_owned())),
    }
}

impl Policy {
    pub fn random(random: &mut Random) -> Self {
        let mut policy = Self {
            owners: Vec::new(),
            claims: Vec::new(),
            creation_owners: random.chance(50),
            deletion: random.chance(50).then(|| subjects(random, 2)),
            unlisted_deny: random.chance(15),
        };
        for owner in 0..2 + random.below(3) {
            // The first one has somebody in it, so that the mode can be switched.
            let few = if owner > 0 && random.chance(20) { 0 } else { 1 + random.below(2) };
            policy.owners.push(Owner { name: format!("owner-{owner}"), subjects: subjects(random, few) });
            let mut paths: Vec<&[&str]> = (0..1 + random.below(6)).map(|_| random.pick(PATHS)).collect();
            // What conditions read has to be claimed without one.
            paths.push(&["spec", "mode"]);
            paths.sort_unstable();
            paths.dedup();
            for path in paths {
                let is_mode = path == ["spec", "mode"];
                if is_mode && owner > 0 {
                    continue;
                }
                let when = (!is_mode && random.chance(35)).then(|| condition(random));
                let steps = path.iter().map(|text| step(text)).collect();
                policy.claims.push(Claim { owner, steps, when });
            }
        }
        policy
    }

    /// Whether some claim splits the atomic list.
    pub fn claims_rules(&self) -> bool {
        let rules = [step("spec"), step("rules")];
        self.claims.iter().any(|claim| claim.steps.len() > 2 && claim.steps.starts_with(&rules))
    }

    pub fn may_delete(&self, who: &Who) -> bool {
        self.deletion.as_ref().is_none_or(|subjects| who.is_one_of(subjects))
    }

    /// As it is written to the API server. `marker` is one more path, closed for all, by which to see that this
    /// very policy is in force.
    pub fn object(&self, name: &str, marker: &str) -> Value {
        let owner = |(index, owner): (usize, &Owner)| {
            let fields: Vec<Value> =
                self.claims.iter().filter(|claim| claim.owner == index).map(field).collect();
            let mut object = json!({"name": owner.name, "fields": fields});
            if !owner.subjects.is_empty() {
                object["subjects"] = subjects_object(&owner.subjects);
            }
            (!fields.is_empty()).then_some(object)
        };
        let mut owners: Vec<Value> = self.owners.iter().enumerate().filter_map(owner).collect();
        let marker = format!(".metadata.annotations[{}]", json!(marker));
        owners.push(json!({"name": "marker", "fields": [{"path": marker}]}));
        let mut spec = json!({
            "target": {"group": "arena.example.com", "version": "v1", "resource": name},
            "mode": "Enforce",
            "owners": owners,
            "creation": {"policy": if self.creation_owners { "Owners" } else { "Anyone" }},
            "unlisted": if self.unlisted_deny { "Deny" } else { "Allow" },
        });
        if let Some(subjects) = &self.deletion {
            spec["deletion"] = json!({"subjects": subjects_object(subjects)});
        }
        json!({
            "apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": name}, "spec": spec,
        })
    }
}

fn field(claim: &Claim) -> Value {
    let mut field = json!({"path": render(claim.steps.iter().map(Option::as_ref))});
    if let Some(when) = &claim.when {
        field["when"] = json!(when.text());
    }
    field
}

fn subjects(random: &mut Random, most: usize) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = Vec::new();
    for _ in 0..most {
        let subject = random.pick(&SUBJECTS);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

fn subjects_object(subjects: &[Subject]) -> Value {
    let object = |subject: &Subject| match subject {
        Subject::User(name) => json!({"kind": "User", "name": name}),
        Subject::Group(name) => json!({"kind": "Group", "name": name}),
    };
    subjects.iter().map(object).collect()
}

fn condition(random: &mut Random) -> When {
    match random.below(4) {
        0 => When::Is(random.pick(&["calm", "storm"])),
        1 => When::IsNot(random.pick(&["calm", "storm"])),
        2 => When::In(vec!["calm", "storm"]),
        _ => When::Has,
    }
}
