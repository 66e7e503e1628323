use super::*;

/// Where each privilege may be granted (facts: gravitino 1.2; levels not named there as the server checks them).
const GRANTABLE: [(&str, &str); 34] = [
    ("CREATE_CATALOG", "METALAKE"),
    ("USE_CATALOG", "METALAKE CATALOG"),
    ("CREATE_SCHEMA", "METALAKE CATALOG"),
    ("USE_SCHEMA", "METALAKE CATALOG SCHEMA"),
    ("CREATE_TABLE", "METALAKE CATALOG SCHEMA"),
    ("MODIFY_TABLE", "METALAKE CATALOG SCHEMA TABLE"),
    ("SELECT_TABLE", "METALAKE CATALOG SCHEMA TABLE"),
    ("CREATE_VIEW", "METALAKE CATALOG SCHEMA"),
    ("SELECT_VIEW", "METALAKE CATALOG SCHEMA VIEW"),
    ("CREATE_FILESET", "METALAKE CATALOG SCHEMA"),
    ("WRITE_FILESET", "METALAKE CATALOG SCHEMA FILESET"),
    ("READ_FILESET", "METALAKE CATALOG SCHEMA FILESET"),
    ("CREATE_TOPIC", "METALAKE CATALOG SCHEMA"),
    ("PRODUCE_TOPIC", "METALAKE CATALOG SCHEMA TOPIC"),
    ("CONSUME_TOPIC", "METALAKE CATALOG SCHEMA TOPIC"),
    ("REGISTER_MODEL", "METALAKE CATALOG SCHEMA"),
    ("CREATE_MODEL", "METALAKE CATALOG SCHEMA"),
    ("LINK_MODEL_VERSION", "METALAKE CATALOG SCHEMA MODEL"),
    ("CREATE_MODEL_VERSION", "METALAKE CATALOG SCHEMA MODEL"),
    ("USE_MODEL", "METALAKE CATALOG SCHEMA MODEL"),
    ("REGISTER_FUNCTION", "METALAKE CATALOG SCHEMA"),
    ("EXECUTE_FUNCTION", "METALAKE CATALOG SCHEMA FUNCTION"),
    ("MODIFY_FUNCTION", "METALAKE CATALOG SCHEMA FUNCTION"),
    ("MANAGE_USERS", "METALAKE"),
    ("MANAGE_GROUPS", "METALAKE"),
    ("CREATE_ROLE", "METALAKE"),
    ("MANAGE_GRANTS", "METALAKE"),
    ("CREATE_TAG", "METALAKE"),
    ("APPLY_TAG", "METALAKE TAG"),
    ("CREATE_POLICY", "METALAKE"),
    ("APPLY_POLICY", "METALAKE POLICY"),
    ("REGISTER_JOB_TEMPLATE", "METALAKE"),
    ("USE_JOB_TEMPLATE", "METALAKE JOB_TEMPLATE"),
    ("RUN_JOB", "METALAKE"),
];

#[test]
fn each_privilege_is_grantable_exactly_where_gravitino_grants_it() {
    for (name, levels) in GRANTABLE {
        let privilege = Privilege::parse(name).expect(name);
        for kind in ObjectType::ALL {
            let expected = levels.split(' ').any(|level| level == kind.name());
            assert_eq!(privilege.grantable_on(kind), expected, "{name} on {}", kind.name());
        }
    }
}

#[test]
fn names_are_read_in_any_letter_case_and_deprecated_names_as_their_successors() {
    assert_eq!(Privilege::parse("select_Table"), Some(Privilege::SelectTable));
    assert_eq!(Privilege::parse("create_model"), Some(Privilege::RegisterModel));
    assert_eq!(Privilege::parse("CREATE_MODEL_VERSION"), Some(Privilege::LinkModelVersion));
    assert_eq!(Privilege::parse("SELECT"), None);
    assert_eq!(ObjectType::parse("Job_Template"), Some(ObjectType::JobTemplate));
    assert_eq!(ObjectType::parse("file"), None);
}

#[test]
fn a_set_holds_each_privilege_by_itself() {
    for privilege in Privilege::ALL {
        let set = Privileges::default().with(privilege);
        assert_eq!(set.iter().collect::<Vec<_>>(), [privilege]);
    }
    assert_eq!(Privilege::ALL.into_iter().collect::<Privileges>().iter().count(), 32);
    assert!(Privileges::default().is_empty());
}
