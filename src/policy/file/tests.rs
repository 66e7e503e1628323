use super::*;

#[test]
fn yaml_and_json_are_read_alike() {
    let yaml = "
metalakes:
  - name: m
    owner: { group: admins }
    roles: [{ name: r, grants: [{ on: table c.s.t, allow: [select_table, READ], deny: [CREATE_MODEL] }] }]
namespaces:
  - { name: n, callers: { users: ['*'] }, jobs: [{ namespace: j, names: ['*'] }], effect: deny }
";
    let json = r#"{"metalakes": [{"name": "m", "owner": {"group": "admins"}, "roles": [{"name": "r", "grants": [
        {"on": "table c.s.t", "allow": ["select_table", "\u0052EAD"], "deny": ["CREATE_MODEL"]}]}]}],
        "namespaces": [{"name": "n", "callers": {"users": ["*"]}, "jobs": [{"namespace": "j", "names": ["*"]}],
        "effect": "deny"}]}"#;
    let (yaml, json) = (parse(yaml, Format::Yaml).expect("YAML"), parse(json, Format::Json).expect("JSON"));
    assert_eq!(format!("{yaml:?}"), format!("{json:?}"));
    let metalake = &yaml.metalakes[0];
    let grant = &metalake.roles[0].grants[0];
    assert_eq!(metalake.owner, HolderShape::Group("admins".to_owned()));
    assert_eq!((metalake.outputs, metalake.schema_separator.as_str()), (Outputs::Visible, ":"));
    assert_eq!(grant.allow.known.iter().collect::<Vec<_>>(), [Privilege::SelectTable]);
    assert_eq!(grant.allow.unknown, ["READ".into()]);
    assert_eq!(grant.deny.known.iter().collect::<Vec<_>>(), [Privilege::RegisterModel]);
    assert_eq!(yaml.namespaces[0].effect, Effect::Deny);
}

#[test]
fn wrong_shapes_are_refused_with_their_place() {
    let rows = [
        ("metalake: []", Format::Yaml, (1, 1)),
        ("metalakes: [{ owner: { user: a } }]", Format::Yaml, (1, 15)),
        ("metalakes: [{ name: m, owner: { user: a, group: b } }]", Format::Yaml, (1, 42)),
        ("{\"metalakes\": [{\"name\": \"m\", \"name\": \"n\"}]}", Format::Json, (1, 35)),
        ("{} {}", Format::Json, (1, 4)),
        ("metalakes: []\n---\nmetalakes: []", Format::Yaml, (3, 1)),
    ];
    for (text, format, place) in rows {
        let error = parse(text, format).expect_err(text);
        assert_eq!((error.line, error.column), place, "{text}: {error}");
        assert!(!error.message.is_empty() && !error.message.contains(" line "), "{error}");
    }
}

#[test]
fn aliases_that_blow_a_small_file_up_are_refused() {
    let grants = "{ on: metalake, allow: [USE_CATALOG] },".repeat(1000);
    let roles = |count: usize| "{ name: r, grants: *all },".repeat(count);
    let text = |count| {
        let first = format!("{{ name: r, grants: &all [{grants}] }},");
        format!("metalakes: [{{ name: m, owner: {{ user: a }}, roles: [{first}{}] }}]", roles(count))
    };
    assert!(parse(&text(2), Format::Yaml).is_ok());
    assert!(parse(&text(5000), Format::Yaml).is_err());
}

#[test]
fn the_schema_describes_every_key_and_allows_no_other() {
    let schema = json_schema();
    let definitions = schema["$defs"].as_object().expect("definitions");
    for name in ["MetalakeShape", "RoleShape", "GrantShape", "OwnerShape", "NamespaceRule", "Callers", "Names"] {
        let definition = &definitions[name];
        assert_eq!(definition["additionalProperties"], serde_json::Value::Bool(false), "{name}");
        for (key, property) in definition["properties"].as_object().expect("properties") {
            assert!(property["description"].is_string(), "{name}.{key}");
        }
    }
    assert!(definitions["MetalakeShape"]["properties"].get("existing").is_none());
}
