//! Subjects as CEL over `request.userInfo`.
//!
//! In: subjects. Out: an expression that holds for exactly the requesters that [`Subject::matches`] names.

use super::cel::{Bool, string, strings};
use crate::ownership::rule::{Identity, ManagerUse, NamespaceSource, Owner, Subject};

/// Whether the requester is one of these.
pub(super) fn is_one_of(subjects: &[Subject]) -> Bool {
    Bool::any(subjects.iter().map(is))
}

/// Whether the requester is this owner, under a field manager that it requires.
pub(super) fn writes_as(owner: &Owner) -> Bool {
    let required: Vec<&str> = owner
        .managers
        .iter()
        .filter(|manager| manager.usage == ManagerUse::Require)
        .map(|manager| &*manager.name)
        .collect();
    let manager = if required.is_empty() {
        Bool::Always
    } else {
        Bool::Text(format!("variables.manager in {}", strings(required)))
    };
    Bool::all([is_one_of(&owner.subjects), manager])
}

fn is(subject: &Subject) -> Bool {
    let username = |name: &str| Bool::Text(format!("request.userInfo.username == {name}"));
    let identity = match &subject.identity {
        Identity::User(name) => username(&string(name)),
        Identity::Group(name) => {
            Bool::Text(format!("{} in request.userInfo.?groups.orValue([])", string(name)))
        }
        Identity::ServiceAccount { namespace: NamespaceSource::Named(namespace), .. }
            if namespace.is_empty() =>
        {
            Bool::Never
        }
        Identity::ServiceAccount { namespace: NamespaceSource::Named(namespace), name } => {
            username(&string(&format!("system:serviceaccount:{namespace}:{name}")))
        }
        Identity::ServiceAccount { namespace: NamespaceSource::Object, name } => Bool::all([
            Bool::Text("request.?namespace.orValue('') != ''".to_owned()),
            username(&format!(
                "'system:serviceaccount:' + request.?namespace.orValue('') + {}",
                string(&format!(":{name}"))
            )),
        ]),
    };
    let uid = subject.uid.iter().map(|uid| format!("request.userInfo.?uid.orValue('') == {}", string(uid)));
    let extra = subject.extra.iter().map(|(key, value)| {
        format!("{} in request.userInfo.?extra[?{}].orValue([])", string(value), string(key))
    });
    Bool::all(std::iter::once(identity).chain(uid.chain(extra).map(Bool::Text)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    fn subject(identity: Identity) -> Subject {
        Subject { identity, uid: None, extra: BTreeMap::new() }
    }

    #[test]
    fn identities_are_compared_as_a_whole() {
        let account = |namespace| subject(Identity::ServiceAccount { namespace, name: "a".into() });
        for (subject, expected) in [
            (subject(Identity::User("o'neil".into())), r"request.userInfo.username == 'o\'neil'"),
            (subject(Identity::Group("g".into())), "'g' in request.userInfo.?groups.orValue([])"),
            (
                account(NamespaceSource::Named("ns".into())),
                "request.userInfo.username == 'system:serviceaccount:ns:a'",
            ),
            (account(NamespaceSource::Named("".into())), "false"),
            (
                account(NamespaceSource::Object),
                "(request.?namespace.orValue('') != '' && request.userInfo.username == 'system:serviceaccount:' + \
                 request.?namespace.orValue('') + ':a')",
            ),
        ] {
            assert_eq!(is(&subject).to_string(), expected);
        }
    }

    #[test]
    fn pins_narrow_a_subject() {
        let pinned = Subject {
            uid: Some("u".into()),
            extra: BTreeMap::from([(Arc::from("node"), Arc::from("n"))]),
            ..subject(Identity::User("a".into()))
        };
        assert_eq!(
            is(&pinned).to_string(),
            "(request.userInfo.username == 'a' && request.userInfo.?uid.orValue('') == 'u' && 'n' in \
             request.userInfo.?extra[?'node'].orValue([]))"
        );
    }
}
