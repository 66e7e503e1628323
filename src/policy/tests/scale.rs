//! Large policies are read, and decide as small ones do.

use super::*;

#[test]
fn a_large_policy_is_read_and_decides_right() {
    const GRANTS: usize = 100_000;
    let grants: String =
        (0..GRANTS).map(|n| format!(r#"{{"on":"table c.s{}.t{n}","allow":["SELECT_TABLE"]}},"#, n % 97)).collect();
    let users: String = (0..GRANTS).map(|n| format!(r#""u{n}","#)).collect();
    let text = format!(
        r#"{{"metalakes":[{{"name":"m","owner":{{"user":"admin"}},"users":[{users}"u"],"roles":[
            {{"name":"big","users":["u"],"grants":[{grants}{{"on":"metalake","allow":["USE_CATALOG","USE_SCHEMA"]}}]}}]}}]}}"#
    );
    let policy = parse(&text, Format::Json).expect("the shape");
    let world = compile(vec![Source { file: "big.json".into(), policy }]).expect("the meaning");
    assert_eq!(world.extent().grants, GRANTS + 1);
    for n in [0, 1, 4_999, GRANTS - 1] {
        let event = run_event("m", "j").input("m", &format!("c.s{}.t{n}", n % 97));
        assert!(is_allowed(&ask(&world, "u", &[], &event)), "{n}");
        assert!(!is_allowed(&ask(&world, &format!("u{n}"), &[], &event)), "{n}");
        let other = run_event("m", "j").input("m", &format!("c.s{}.t{n}", n % 97 + 1));
        assert!(!is_allowed(&ask(&world, "u", &[], &other)), "{n}");
    }
}

#[test]
fn many_exact_namespace_rules_are_found_by_caller_and_namespace() {
    const RULES: usize = 20_000;
    let rule = |n: usize| {
        format!(
            r#"{{"name":"r{n}","callers":{{"users":["u{n}"]}},"jobs":[{{"namespace":"ns{n}","names":["*"]}}],
                "outputs":[{{"namespace":"db{n}","names":["*"]}}],"effect":"allow"}}"#
        )
    };
    let rules: Vec<String> = (0..RULES).map(rule).collect();
    let text = format!(r#"{{"namespaces":[{}]}}"#, rules.join(","));
    let policy = parse(&text, Format::Json).expect("the shape");
    let world = compile(vec![Source { file: "rules.json".into(), policy }]).expect("the meaning");
    for n in [0, 777, RULES - 1] {
        let (user, namespace, data) = (format!("u{n}"), format!("ns{n}"), format!("db{n}"));
        let event = run_event(&namespace, "j").output(&data, "t");
        assert!(is_allowed(&ask(&world, &user, &[], &event)));
        assert!(!is_allowed(&ask(&world, "u1", &[], &event)));
        assert!(!is_allowed(&ask(&world, &user, &[], &run_event("ns1", "j"))));
        assert!(is_allowed(&ask(&world, &user, &[], &dataset_event().output(&data, "t"))));
    }
}
