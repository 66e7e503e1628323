//! Credentials in URIs, taken out of texts (facts: openlineage 2.3 C and 6, row 25).

use std::borrow::Cow;

/// Stands where a secret stood.
const MASK: &str = "***";

/// Parameters are secret if their names end like this, letters and digits only counted, in any case.
const SECRET_ENDINGS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secretkey",
    "token",
    "signature",
    "accesskey",
    "accesskeyid",
    "apikey",
    "privatekey",
    "credential",
    "credentials",
];

/// Parameters with these very names are secret.
const SECRET_NAMES: [&str; 3] = ["sig", "pwd", "pass"];

/// `text` without the credentials of the URIs in it; `None` if there are none.
///
/// A URI is a word with `://` in it, or one that begins with `jdbc:`. `user:password@` goes, a user alone stays: `abfss`
/// names its container so. Values of secret parameters after `?`, `&` and `;` become `***`.
pub(super) fn scrubbed(text: &str) -> Option<String> {
    if !text.contains("://") && !text.contains("jdbc:") {
        return None;
    }
    let mut made = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text;
    while !rest.is_empty() {
        let (gap, after) = rest.split_at(rest.find(|char| !ends_word(char)).unwrap_or(rest.len()));
        let (word, after) = after.split_at(after.find(ends_word).unwrap_or(after.len()));
        let clean = word_scrubbed(word);
        changed |= matches!(clean, Cow::Owned(_));
        made.push_str(gap);
        made.push_str(&clean);
        rest = after;
    }
    changed.then_some(made)
}

fn ends_word(char: char) -> bool {
    char.is_whitespace() || char.is_control() || matches!(char, '"' | '\'' | '`' | '<' | '>')
}

fn word_scrubbed(word: &str) -> Cow<'_, str> {
    let mut word = Cow::Borrowed(word);
    let mut from = 0;
    while let Some((authority, userinfo)) = next_authority(&word, from) {
        if userinfo > 0 {
            word.to_mut().drain(authority..authority + userinfo);
        }
        from = authority;
    }
    if from > 0 || word.contains("jdbc:") { parameters_scrubbed(word) } else { word }
}

/// Where the authority after the next `://` begins, and the length of the `user:password@` that it begins with.
fn next_authority(word: &str, from: usize) -> Option<(usize, usize)> {
    let begin = from + word.get(from..)?.find("://")? + 3;
    let rest = word.get(begin..)?;
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = rest.get(..end)?;
    let userinfo = match authority.rfind('@') {
        Some(at) if authority.get(..at).is_some_and(|user| user.contains(':')) => at + 1,
        Some(_) => 0,
        // A password may hold `/`, `?` and `#` by mistake. What follows a host's colon is a number.
        None => match authority.split_once(':') {
            Some((host, port)) if !host.starts_with('[') && !begins_with_port(port) => {
                rest.find('@').map_or(0, |at| at + 1)
            }
            Some(_) | None => 0,
        },
    };
    Some((begin, userinfo))
}

/// A list of hosts goes on after a comma.
fn begins_with_port(text: &str) -> bool {
    text.bytes().take_while(|byte| *byte != b',').all(|byte| byte.is_ascii_digit())
}

fn parameters_scrubbed(word: Cow<'_, str>) -> Cow<'_, str> {
    let mut made = String::new();
    let mut changed = false;
    let mut rest = &*word;
    while let Some(at) = rest.find(['?', '&', ';']) {
        let (before, parameter) = rest.split_at(at + 1);
        made.push_str(before);
        rest = parameter;
        let Some(equals) = parameter.find(['=', '?', '&', ';', '#']) else { continue };
        let (name, after) = parameter.split_at(equals);
        let Some(after) = after.strip_prefix('=').filter(|_| is_secret(name)) else { continue };
        // SQL Server takes values in braces, which may hold anything.
        let braced = after.strip_prefix('{').and_then(|inner| inner.find('}')).map(|end| end + 2);
        let length = braced.unwrap_or_else(|| after.find(['&', ';', '#', ')', '\\']).unwrap_or(after.len()));
        let (value, after) = after.split_at_checked(length).unwrap_or((after, ""));
        changed |= value != MASK && !value.is_empty();
        made.push_str(name);
        made.push('=');
        made.push_str(if value.is_empty() { "" } else { MASK });
        rest = after;
    }
    if !changed {
        return word;
    }
    made.push_str(rest);
    Cow::Owned(made)
}

fn is_secret(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect();
    SECRET_NAMES.contains(&plain.as_str()) || SECRET_ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn credentials_go_and_the_rest_of_a_text_stays() {
        let table = [
            ("postgres://shop:geheim@db:5432/shop", "postgres://db:5432/shop"),
            (
                "jdbc:postgresql://db/shop?user=a&password=geheim&ssl=true",
                "jdbc:postgresql://db/shop?user=a&password=***&ssl=true",
            ),
            (
                "jdbc:sqlserver://db:1433;user=a;password={ge;heim};encrypt=true",
                "jdbc:sqlserver://db:1433;user=a;password=***;encrypt=true",
            ),
            ("jdbc:sqlserver://db;PWD=geheim", "jdbc:sqlserver://db;PWD=***"),
            ("s3://AKIA:ge/he+im@bucket/key", "s3://bucket/key"),
            ("mongodb://u:geheim@a:1,b:2/db", "mongodb://a:1,b:2/db"),
            (
                "https://x.blob.core.windows.net/c?sv=1&sig=geheim%3D#f",
                "https://x.blob.core.windows.net/c?sv=1&sig=***#f",
            ),
            (
                "https://b.s3.amazonaws.com/k?X-Amz-Signature=geheim&X-Amz-Expires=9",
                "https://b.s3.amazonaws.com/k?X-Amz-Signature=***&X-Amz-Expires=9",
            ),
            (
                "https://a/?aws_secret_access_key=geheim&client-secret=geheim",
                "https://a/?aws_secret_access_key=***&client-secret=***",
            ),
            ("read 'http://u:geheim@h/x' then \"http://v:geheim@h/y\"", "read 'http://h/x' then \"http://h/y\""),
            ("a://u:p@h,b://u:p@h", "a://h,b://h"),
            ("amqp://u:p@ss:w@h", "amqp://h"),
            ("snowflake://u:geheim@acc/db?token=geheim", "snowflake://acc/db?token=***"),
        ];
        for (sent, kept) in table {
            assert_eq!(scrubbed(sent).as_deref(), Some(kept), "{sent}");
            assert_eq!(scrubbed(kept), None, "scrubbed twice: {kept}");
        }
    }

    #[test]
    fn texts_without_credentials_stay_as_they_are() {
        for text in [
            "",
            "password=geheim",
            "select * from t where token = 'x'",
            "postgres://db:5432/shop",
            "abfss://container@account.dfs.core.windows.net/path",
            "ssh://git@host/x",
            "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python",
            "https://openlineage.io/spec/facets/1-0-1/X.json#/$defs/X",
            "http://[::1]:8080/a@b",
            "hdfs://nn:9000/user:x@y",
            "kafka://a:9092,b:9092/topic@x",
            "https://host/?page=1&sort=asc;config=x",
            "https://host/?password=",
            "https://host/?a=b?c&&;=;",
        ] {
            assert_eq!(scrubbed(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_scrubbed_and_only_once(text in "([a-z]{0,3}|://|jdbc:|[:/@?&;=#{}\\\\ é]|password|pass){0,12}") {
            if let Some(kept) = scrubbed(&text) {
                prop_assert_ne!(&kept, &text);
                prop_assert!(kept.len() <= text.len() + 3 * text.matches('=').count());
            }
        }

        #[test]
        fn a_password_never_stays(
            user in "[a-z]{1,5}", password in "[a-z][a-zA-Z0-9+/%!.-]{0,10}Q[a-z]{0,5}", host in "[a-z]{1,8}(:[0-9]{1,4})?",
        ) {
            let uri = format!("postgres://{user}:{password}@{host}/db?x=1&password={password}&y=2");
            let kept = scrubbed(&uri).unwrap();
            prop_assert_eq!(kept, format!("postgres://{host}/db?x=1&password=***&y=2"));
        }
    }
}
