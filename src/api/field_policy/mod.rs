//! `FieldPolicy`: which identity owns which field of which resource.
//!
//! - **Input**: what people write (`spec`) and what the policy controller and the audit report (`status`).
//! - **Output**: types with the schema, bounds and rules that the API server checks.
//! - **Must not**: know what a path or a `when` means; the policy compiler does.
//!
//! [`spec`] holds what concerns the whole policy, [`owner`] one owner and its claims, [`status`] the report.
//!
//! Every list and string is bounded. The bounds keep three things small: the etcd object (1.5 MiB), the estimated cost
//! of the CEL rules (the API server multiplies a rule's cost by `maxItems` of all lists around it, and refuses the CRD
//! above a budget), and the compiled policy in each webhook replica. They are generous: raising one later breaks
//! nobody, lowering one does.

pub mod owner;
pub mod spec;
pub mod status;

pub use owner::{
    Compare, FieldClaim, FieldManagerClaim, ManagerUse, Mutator, NamespaceFrom, Owner, Subject, SubjectKind,
};
pub use spec::{
    AdmissionPolicy, BreakGlass, Creation, CreationPolicy, Deletion, FailurePolicy, FieldPolicy,
    FieldPolicySpec, Integrity, Match, Mode, Target, Unlisted,
};
pub use status::{FieldPolicyStatus, OwnerStatus};

/// Owners in one policy. A resource that more than this many parties share needs a design, not a policy.
pub const MAX_OWNERS: usize = 64;
/// Subjects in one list of subjects; groups exist for more.
pub const MAX_SUBJECTS: usize = 32;
/// Claims of one owner. The widest real case, one claim per container port of a big chart, stays below.
pub const MAX_FIELDS: usize = 64;
/// Field managers, present or former, of one owner: a program has a few, one per independently applied set.
pub const MAX_FIELD_MANAGERS: usize = 16;
/// Mutating webhooks and policies named on one claim.
pub const MAX_MUTATORS: usize = 8;
/// Pinned `extra` keys of one subject.
pub const MAX_EXTRA: usize = 8;
/// A name of an object in a cluster (DNS subdomain).
pub const MAX_OBJECT_NAME: usize = 253;
/// A DNS label: namespaces, versions, resources, names of owners.
pub const MAX_LABEL: usize = 63;
/// A user or group as the API server knows it; certificates and OIDC claims can be long.
pub const MAX_IDENTITY: usize = 512;
/// A field manager's name; the API server's own limit.
pub const MAX_MANAGER_NAME: usize = 128;
/// One path as text. Map keys take up to 317, list keys with several members more.
pub const MAX_PATH: usize = 1024;
/// One `when` as text; the parser's own limit is the same.
pub const MAX_WHEN: usize = 1024;
/// Advice in a denial. The whole answer to a client must stay readable in a terminal.
pub const MAX_INSTEAD: usize = 256;
/// A time as RFC 3339 text with fraction and offset.
pub const MAX_TIME: usize = 64;
