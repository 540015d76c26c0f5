//! Compiled policies: what `decide` works with.
//!
//! `policy::compile` makes these from FieldPolicy objects; nothing here knows
//! that type, a client, or how a policy is written down.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::compare::Compare;
use super::condition::Expr;
use super::facts::Requester;
use super::pattern::Pattern;
use super::schema::Schema;
use super::selection::Selection;

/// How strictly a rule is applied, from mildest to strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Log, count and annotate.
    #[default]
    Audit,
    /// Allow and warn the client.
    Warn,
    /// Deny.
    Enforce,
}

impl Mode {
    /// The spelling used in FieldPolicy, in metrics and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Audit => "Audit",
            Self::Warn => "Warn",
            Self::Enforce => "Enforce",
        }
    }
}

/// Where the namespace of a service account subject comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceSource {
    /// A fixed namespace.
    Named(Arc<str>),
    /// The namespace of the object under review.
    Object,
}

/// The identity part of a [`Subject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Exactly this user name.
    User(Arc<str>),
    /// Membership in exactly this group.
    Group(Arc<str>),
    /// This service account.
    ServiceAccount {
        /// Its namespace.
        namespace: NamespaceSource,
        /// Its name.
        name: Arc<str>,
    },
}

/// An identity that a policy names, with optional pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Who.
    pub identity: Identity,
    /// The requester's uid must be this one.
    pub uid: Option<Arc<str>>,
    /// Each of these extra keys must hold this value.
    pub extra: BTreeMap<Arc<str>, Arc<str>>,
}

/// What a field manager name means for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagerUse {
    /// Entries of this name are filed under this owner.
    Expect,
    /// Nobody else may write under this name.
    Reserve,
    /// The owner must write under one of its required names.
    Require,
}

/// A field manager name that an owner declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredManager {
    /// The name.
    pub name: Arc<str>,
    /// What it is for.
    pub usage: ManagerUse,
}

/// An owner: identities, and the manager names they write under.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The owner's name inside its policy.
    pub name: Arc<str>,
    /// Identities; empty means that nobody may write its fields.
    pub subjects: Vec<Subject>,
    /// Declared manager names.
    pub managers: Vec<DeclaredManager>,
    /// Names that it once wrote under: its own to move to a present name, and nobody's to move into.
    pub former_managers: Vec<Arc<str>>,
    /// The mode of its claims unless a claim says otherwise.
    pub mode: Mode,
}

impl Owner {
    /// Whether a field manager name, present or former, is this owner's.
    #[must_use]
    pub fn declares(&self, manager: &str) -> bool {
        self.managers.iter().any(|declared| *declared.name == *manager)
            || self.former_managers.iter().any(|former| **former == *manager)
    }
}

/// One claim: an owner's hold on a path.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The path and everything below it.
    pub pattern: Pattern,
    /// Index into [`Policy::owners`].
    pub owner: usize,
    /// Effective mode.
    pub mode: Mode,
    /// The claim is active only while this holds of the stored object.
    pub when: Option<Expr>,
    /// What to do instead, in the policy author's words.
    pub instead: Option<Arc<str>>,
    /// Values are never printed.
    pub sensitive: bool,
    /// The only mutating webhooks and policies that may change it on its way; empty: any that is
    /// proven to be one.
    pub mutators: Vec<Mutator>,
    /// When two values are the same.
    pub compare: Compare,
}

/// A mutating webhook or policy that may change a claimed field.
#[derive(Clone, Debug)]
pub struct Mutator {
    /// Name for reports.
    pub name: Arc<str>,
    /// Only while this holds; `object` is the object after all mutation.
    pub when: Option<Expr>,
}

/// Who may set claimed fields on CREATE.
#[derive(Clone, Debug)]
pub enum Creation {
    /// Anyone may.
    Anyone,
    /// The owners may, and the subjects excepted here (restore tools).
    Owners {
        /// Identities that may set any claimed field when creating.
        except: Vec<Subject>,
    },
}

/// How entries of `managedFields` for claimed fields are guarded.
#[derive(Clone, Debug)]
pub struct Integrity {
    /// Stripped, forged, poisoned or wiped entries.
    pub mode: Mode,
    /// Holding a claimed field beside its owner by applying an equal value.
    pub co_ownership: Mode,
    /// Migration tools that may edit `managedFields`.
    pub editors: Vec<Subject>,
}

/// What becomes of a change that no active claim covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// Nothing.
    Allow,
    /// A warning at most.
    Warn,
    /// Judged in the policy's mode.
    Deny,
}

/// One compiled policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Name of the FieldPolicy.
    pub name: Arc<str>,
    /// Generation that was compiled.
    pub generation: i64,
    /// The objects that it governs.
    pub selection: Selection,
    /// The policy's own mode.
    pub mode: Mode,
    /// Owners, in the order of the policy.
    pub owners: Vec<Owner>,
    /// Claims, the most specific path first ([`Pattern::cmp_specificity`]); claims on one path stand together.
    pub claims: Vec<Claim>,
    /// Changes outside every claim.
    pub unlisted: Unlisted,
    /// Creation of objects.
    pub creation: Creation,
    /// Who may delete; `None`: RBAC decides, empty: nobody.
    pub deletion: Option<Vec<Subject>>,
    /// Guard of `managedFields`.
    pub integrity: Integrity,
    /// Identities that are judged but never refused.
    pub break_glass: Vec<Subject>,
    /// Until then the policy only audits; seconds since the Unix epoch.
    pub paused_until: Option<i64>,
}

impl Policy {
    /// The strictest mode of the policy or of any of its claims: what applies when the request
    /// as a whole cannot be judged.
    #[must_use]
    pub fn strictest(&self) -> Mode {
        self.claims.iter().map(|claim| claim.mode).fold(self.mode, Mode::max)
    }
}

/// How `/scale` of a kind maps to the object.
#[derive(Clone, Debug)]
pub struct ScalePath {
    /// The path of the count in the object, for example `.spec.targetNodes`.
    pub replicas: Pattern,
}

/// Everything known of one governed resource.
#[derive(Clone, Debug)]
pub struct Target {
    /// API group.
    pub group: Arc<str>,
    /// Plural resource name.
    pub resource: Arc<str>,
    /// The version that the policies' paths are written for.
    pub version: Arc<str>,
    /// That version is not served any more, but the others hold the same fields in the same places:
    /// the paths hold in each of them.
    pub any_version: bool,
    /// Topology of that version; deduced where no schema is known.
    pub schema: Arc<Schema>,
    /// Every version that the kind has, as `group/version` (an entry of another one cannot be
    /// read by the server); empty when unknown, then no entry is held to be unreadable.
    pub versions: Vec<Arc<str>>,
    /// `/scale`, where the kind has it.
    pub scale: Option<ScalePath>,
    /// Values of this kind are never printed (Secrets).
    pub sensitive: bool,
    /// The policies on it, by name.
    pub policies: Vec<Arc<Policy>>,
}

/// All targets of a snapshot. Looking one up costs the same however many there are.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    groups: HashMap<Arc<str>, HashMap<Arc<str>, Arc<Target>>>,
}

impl PolicySet {
    /// Collects targets; a later one replaces an earlier one of the same resource.
    #[must_use]
    pub fn new(targets: impl IntoIterator<Item = Arc<Target>>) -> Self {
        let mut groups: HashMap<Arc<str>, HashMap<Arc<str>, Arc<Target>>> = HashMap::new();
        for target in targets {
            groups.entry(target.group.clone()).or_default().insert(target.resource.clone(), target);
        }
        Self { groups }
    }

    /// The target for a resource, if any policy names it.
    #[must_use]
    pub fn target(&self, group: &str, resource: &str) -> Option<&Arc<Target>> {
        self.groups.get(group)?.get(resource)
    }

    /// All targets, in no particular order.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.groups.values().flat_map(HashMap::values)
    }
}

impl Subject {
    /// Whether the requester is this subject, for an object in `namespace`.
    #[must_use]
    pub fn matches(&self, requester: &Requester, namespace: &str) -> bool {
        let identity = match &self.identity {
            Identity::User(name) => requester.username == **name,
            Identity::Group(name) => requester.groups.iter().any(|group| *group == **name),
            Identity::ServiceAccount { namespace: source, name } => {
                let account_namespace = match source {
                    NamespaceSource::Named(named) => named,
                    NamespaceSource::Object => namespace,
                };
                is_service_account(&requester.username, account_namespace, name)
            }
        };
        identity
            && self.uid.as_ref().is_none_or(|uid| requester.uid == **uid)
            && self.extra.iter().all(|(key, value)| {
                requester.extra.get(&**key).is_some_and(|values| values.iter().any(|held| *held == **value))
            })
    }
}

/// Compares without building the full name: this runs for every review.
fn is_service_account(username: &str, namespace: &str, name: &str) -> bool {
    !namespace.is_empty()
        && username
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.strip_prefix(namespace))
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| rest == name)
}
