//! Names, groups and identity; the refusals stand in the table of `auth::tests::checklist`.

use serde_json::json;

use crate::auth::tests::support::{Bench, NOW, judge};
use crate::auth::{Caller, Error, Reason};

async fn caller(config: serde_json::Value, claims: serde_json::Value) -> Result<Caller, Error> {
    let bench = Bench::new();
    judge(&bench.auth(&config), &bench.token(&json!({}), &claims)).await
}

#[tokio::test]
async fn the_subject_is_the_first_claim_that_is_there() {
    let claims = ["preferred_username", "sub"];
    let table = [
        (json!({ "preferred_username": "ann" }), Ok("ann")),
        (json!({}), Ok("alice")),
        (json!({ "preferred_username": "" }), Err(Reason::Subject)),
        (json!({ "preferred_username": null, "sub": null }), Err(Reason::Subject)),
        (json!({ "_claim_names": { "preferred_username": "src" } }), Err(Reason::Subject)),
    ];
    for (patch, expected) in table {
        let subject = caller(json!({ "subject_claims": claims }), patch.clone()).await.map(|caller| caller.subject);
        assert_eq!(subject, expected.map(Into::into).map_err(Into::into), "{patch}");
    }
}

#[tokio::test]
async fn the_pattern_matches_the_whole_subject_and_its_group_is_the_name() {
    let table = [
        ("[a-z]+", "alice", Ok("alice")),
        ("[a-z]+", "alice1", Err(Reason::Subject)),
        ("lice", "alice", Err(Reason::Subject)),
        ("a|alice", "alice", Ok("alice")),
        ("alice$", "alice\n", Err(Reason::Subject)),
        ("(?m)^alice$", "alice\nroot", Err(Reason::Subject)),
        ("(.+)@example\\.com", "ann@example.com", Ok("ann")),
        ("(.+)@example\\.com", "ann@example.com.evil.org", Err(Reason::Subject)),
        ("(.*)@example\\.com", "@example.com", Err(Reason::Subject)),
        ("(?:svc-(.+))|user", "user", Err(Reason::Subject)),
    ];
    for (pattern, subject, expected) in table {
        let result = caller(json!({ "subject_pattern": pattern }), json!({ "sub": subject })).await;
        assert_eq!(result.map(|c| c.subject), expected.map(Into::into).map_err(Into::into), "{pattern} {subject}");
    }
}

#[tokio::test]
async fn groups_that_are_elsewhere_or_no_list_are_never_taken_for_none() {
    let of = |names: &[&str]| Ok(names.iter().map(|name| (*name).into()).collect::<Vec<std::sync::Arc<str>>>());
    let config = json!({ "groups_claims": ["roles", "groups"] });
    let refused = || Err(Error::from(Reason::Groups));
    let table = [
        (json!({}), of(&[])),
        (json!({ "groups": [] }), of(&[])),
        (json!({ "groups": ["b", "a"] }), of(&["b", "a"])),
        (json!({ "roles": ["r"], "groups": ["g"] }), of(&["r"])),
        (json!({ "groups": "a" }), refused()),
        (json!({ "groups": "a b" }), refused()),
        (json!({ "groups": ["a", 1] }), refused()),
        (json!({ "groups": [["a"]] }), refused()),
        (json!({ "groups": { "a": true } }), refused()),
        (json!({ "groups": false }), refused()),
        (json!({ "_claim_names": { "groups": "src1" }, "_claim_sources": { "src1": {} } }), refused()),
        (json!({ "_claim_names": { "groups": "src1" }, "groups": ["a"] }), refused()),
        (json!({ "_claim_names": "groups" }), Err(Reason::Subject.into())),
        (json!({ "_claim_names": { "address": "src1" }, "groups": ["a"] }), of(&["a"])),
        (json!({ "hasgroups": true }), refused()),
        (json!({ "hasgroups": "true" }), refused()),
        (json!({ "hasgroups": false }), of(&[])),
        (json!({ "hasgroups": true, "roles": ["r"] }), of(&["r"])),
    ];
    for (patch, expected) in table {
        let groups = caller(config.clone(), patch.clone()).await.map(|caller| caller.groups.to_vec());
        assert_eq!(groups, expected, "{patch}");
    }
}

#[tokio::test]
async fn null_groups_are_no_list() {
    let bench = Bench::new();
    let mut claims = crate::auth::tests::support::claims(&json!({}));
    claims["groups"] = serde_json::Value::Null;
    let token = bench.key.sign(&claims).unwrap();
    assert_eq!(judge(&bench.auth(&json!({})), &token).await, Err(Reason::Groups.into()));
}

#[tokio::test]
async fn the_identity_changes_with_lasting_claims_only() {
    let bench = Bench::new();
    let auth = bench.auth(&json!({}));
    let identity =
        async |patch: serde_json::Value| judge(&auth, &bench.token(&json!({}), &patch)).await.unwrap().identity;
    let base = identity(json!({})).await;
    for renewed in [json!({ "exp": NOW + 900 }), json!({ "iat": NOW - 5, "nbf": NOW - 5 }), json!({ "jti": "other" })] {
        assert_eq!(identity(renewed).await, base);
    }
    let changes = [
        json!({ "sub": "bob" }),
        json!({ "groups": ["a", "b"] }),
        json!({ "groups": ["b", "a"] }),
        json!({ "groups": ["ab"] }),
        json!({ "x": { "a": 1 } }),
        json!({ "x": { "a": "1" } }),
        json!({ "x": { "a": [1] } }),
        json!({ "x": { "exp": 1 } }),
        json!({ "x": { "exp": 2 } }),
    ];
    let mut seen = vec![base];
    for change in changes {
        let identity = identity(change.clone()).await;
        assert!(!seen.contains(&identity), "{change}");
        seen.push(identity);
    }
    let one = bench
        .key
        .sign_parts(
            &json!({ "alg": "ES256" }),
            format!(r#"{{"iss":"https://idp.example.com/","aud":"lineage","sub":"alice","exp":{}}}"#, NOW + 9)
                .as_bytes(),
        )
        .unwrap();
    assert_eq!(judge(&auth, &one).await.unwrap().identity, base);
}

#[tokio::test]
async fn the_token_id_is_the_jti_or_the_start_of_the_hash() {
    let id = async |patch: serde_json::Value| caller(json!({}), patch).await.unwrap().token_id;
    assert_eq!(&*id(json!({ "jti": "j-1" })).await, "j-1");
    for patch in [
        json!({}),
        json!({ "jti": 7 }),
        json!({ "jti": "" }),
        json!({ "jti": "a\nb" }),
        json!({ "jti": "j".repeat(129) }),
    ] {
        let id = id(patch.clone()).await;
        assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{patch}: {id}");
    }
}
