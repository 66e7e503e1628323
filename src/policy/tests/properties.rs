//! What holds of every policy and every event.

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::*;
use crate::policy::file::{GrantShape, MetalakeShape, OwnerShape, PolicyFile, PrivilegeList, RoleShape};
use crate::policy::{ObjectType, Privilege};

const OBJECTS: [&str; 9] = [
    "metalake",
    "catalog a",
    "catalog b",
    "schema a.s",
    "schema b.s",
    "table a.s.t",
    "table a.s.u",
    "view a.s.v",
    "fileset b.s.f",
];

const TARGETS: [(&str, &str); 8] = [
    ("TABLE", "a.s.t"),
    ("TABLE", "a.s.u"),
    ("TABLE", "a.s.missing"),
    ("VIEW", "a.s.v"),
    ("FILESET", "b.s.f"),
    ("TABLE", "b.s.f"),
    ("TABLE", "nowhere.s.t"),
    ("TABLE", "a.s"),
];

fn privileges_on(on: &str) -> Vec<Privilege> {
    let kind = ObjectType::parse(on.split(' ').next().unwrap_or_default()).expect("a type");
    Privilege::ALL.into_iter().filter(|privilege| privilege.grantable_on(kind)).collect()
}

fn list(privileges: impl IntoIterator<Item = Privilege>) -> PrivilegeList {
    PrivilegeList { known: privileges.into_iter().collect(), unknown: Vec::new() }
}

fn grant() -> impl Strategy<Value = GrantShape> {
    select(&OBJECTS[..]).prop_flat_map(|on| {
        let privileges = privileges_on(on);
        let some = |most: usize| subsequence(privileges.clone(), 0..=most.min(privileges.len()));
        (some(privileges.len()), some(2), Just(privileges.clone())).prop_map(move |(allow, deny, all)| {
            let allow = if allow.is_empty() && deny.is_empty() { all } else { allow };
            GrantShape { on: on.into(), allow: list(allow), deny: list(deny) }
        })
    })
}

fn names(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    subsequence(of, 0..=of.len()).prop_map(|names| names.into_iter().map(str::to_owned).collect())
}

fn roles() -> impl Strategy<Value = Vec<RoleShape>> {
    let role = (names(&["u", "v"]), names(&["g"]), prop::collection::vec(grant(), 0..6));
    prop::collection::vec(role, 1..5).prop_map(|roles| {
        let named = roles.into_iter().enumerate();
        named.map(|(at, (users, groups, grants))| RoleShape { name: format!("r{at}"), users, groups, grants }).collect()
    })
}

fn owners() -> impl Strategy<Value = Vec<OwnerShape>> {
    (subsequence(&OBJECTS[1..], 0..3), any::<bool>()).prop_map(|(objects, by_group)| {
        let holder = |wanted: bool, name: &str| wanted.then(|| name.to_owned());
        let owner =
            |on: &str| OwnerShape { on: on.to_owned(), user: holder(!by_group, "u"), group: holder(by_group, "g") };
        objects.into_iter().map(owner).collect()
    })
}

fn shape() -> impl Strategy<Value = MetalakeShape> {
    (roles(), owners()).prop_map(|(roles, owners)| MetalakeShape {
        name: "m".to_owned(),
        owner: crate::policy::file::HolderShape::User("admin".to_owned()),
        users: vec!["u".to_owned(), "v".to_owned()],
        groups: vec!["g".to_owned()],
        roles,
        owners,
        lower_case_catalogs: Vec::new(),
        outputs: crate::policy::file::Outputs::Visible,
        schema_separator: ":".to_owned(),
        existing: None,
    })
}

fn compiled(shape: &MetalakeShape) -> World {
    let policy = PolicyFile { metalakes: vec![shape.clone()], namespaces: Vec::new() };
    compile(vec![Source { file: "m.yaml".into(), policy }]).expect("a world")
}

type Named = (Role, &'static str, &'static str);

fn targets() -> impl Strategy<Value = Vec<Named>> {
    let target = (select(vec![Role::Input, Role::Output]), select(&TARGETS[..]))
        .prop_map(|(role, (kind, name))| (role, kind, name));
    prop::collection::vec(target, 0..5)
}

fn event_of(targets: &[Named]) -> Event {
    let with = |event: Event, (role, kind, name): &Named| event.naming(*role, "m", name).of_type(kind);
    targets.iter().fold(run_event("m", "j"), with)
}

fn active() -> impl Strategy<Value = ActiveRoles> {
    select(vec![None, Some("NONE"), Some("r0"), Some("r0,r1")])
        .prop_map(|value| ActiveRoles::parse(value).expect("roles"))
}

fn verdict(world: &World, subject: &str, roles: &ActiveRoles, event: &Event) -> Judgement {
    let groups = groups(&["g", "unknown"]);
    judge(world, &Identity { subject, groups: &groups }, roles, event, FacetReferences::Governed)
}

/// What the caller is told, without which of several equal faults it was.
fn answer(judgement: &Judgement) -> u16 {
    match judgement {
        Judgement::Allowed { .. } => 201,
        Judgement::Denied(Denied { refusal: Refused::Unresolvable(_), .. }) => 400,
        Judgement::Denied(Denied { refusal: Refused::NotVisible | Refused::RolesNotHeld(_), .. }) => 403,
    }
}

proptest! {
    #[test]
    fn the_order_of_inputs_and_outputs_never_changes_the_verdict(
        shape in shape(), targets in targets(), shuffled in any::<Index>(), active in active(),
    ) {
        let world = compiled(&shape);
        let mut other = targets.clone();
        if !other.is_empty() {
            other.rotate_left(shuffled.index(targets.len()));
            other.reverse();
        }
        let (first, second) = (event_of(&targets), event_of(&other));
        let (first, second) = (verdict(&world, "u", &active, &first), verdict(&world, "u", &active, &second));
        prop_assert_eq!(answer(&first), answer(&second));
    }

    #[test]
    fn a_grant_never_takes_away_and_a_denial_never_adds(
        shape in shape(), targets in targets(), added in grant(), role in any::<Index>(), active in active(),
    ) {
        let event = event_of(&targets);
        let before = answer(&verdict(&compiled(&shape), "u", &active, &event));
        let with = |allow: PrivilegeList, deny: PrivilegeList| {
            let mut more = shape.clone();
            let at = role.index(more.roles.len());
            more.roles[at].grants.push(GrantShape { on: added.on.clone(), allow, deny });
            answer(&verdict(&compiled(&more), "u", &active, &event))
        };
        let all = list(added.allow.known.iter().chain(added.deny.known.iter()));
        let granted = with(all.clone(), PrivilegeList::default());
        let denied = with(PrivilegeList::default(), all);
        prop_assert!(before != 201 || granted == 201, "a grant of {added:?} took away");
        prop_assert!(denied != 201 || before == 201, "a denial of {added:?} added");
    }

    #[test]
    fn an_unknown_user_sees_nothing(shape in shape(), targets in targets(), active in active()) {
        let judgement = verdict(&compiled(&shape), "stranger", &active, &event_of(&targets));
        prop_assert_eq!(hidden(judgement), "no user row in metalake m");
    }

    #[test]
    fn permuting_roles_and_their_grants_changes_nothing(
        shape in shape(), targets in targets(), by in any::<Index>(), active in active(),
    ) {
        let event = event_of(&targets);
        let mut other = shape.clone();
        let count = other.roles.len();
        other.roles.rotate_left(by.index(count));
        for role in &mut other.roles {
            role.grants.reverse();
        }
        let (first, second) = (verdict(&compiled(&shape), "u", &active, &event), verdict(&compiled(&other), "u", &active, &event));
        prop_assert_eq!(answer(&first), answer(&second));
    }

    #[test]
    fn narrowing_roles_never_adds(shape in shape(), targets in targets(), active in active()) {
        let world = compiled(&shape);
        let event = event_of(&targets);
        let narrowed = answer(&verdict(&world, "u", &active, &event));
        let whole = answer(&verdict(&world, "u", &ActiveRoles::All, &event));
        prop_assert!(narrowed != 201 || whole == 201);
    }

    #[test]
    fn explain_and_judge_agree(shape in shape(), targets in targets(), active in active()) {
        let world = compiled(&shape);
        let event = event_of(&targets);
        let groups = groups(&["g"]);
        let who = Identity { subject: "u", groups: &groups };
        let judged = judge(&world, &who, &active, &event, FacetReferences::Governed);
        let told = crate::policy::explain(&world, &who, &active, &event, FacetReferences::Governed);
        prop_assert_eq!(is_allowed(&judged), told.iter().all(|line| line.allowed));
        if let Judgement::Denied(denied) = judged {
            let line = &told[denied.reference.expect("a reference")];
            prop_assert_eq!(&denied.why, &line.why);
            prop_assert!(!line.allowed);
        }
    }
}
