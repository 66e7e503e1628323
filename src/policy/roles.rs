//! Active roles: the header `X-Gravitino-Active-Roles` (facts: gravitino 1.2, gravitino-real 3.17).

/// The header that names them, in the lower case of `http::HeaderName`.
pub const ACTIVE_ROLES: &str = "x-gravitino-active-roles";

/// The roles that a caller wants to act with. They narrow what roles allow; denials and ownership stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ActiveRoles {
    /// Every role that is held.
    #[default]
    All,
    /// No role.
    None,
    /// These, in the order sent, each once.
    Named(Box<[Box<str>]>),
}

/// The header cannot be read. The texts are Gravitino's and are safe to send: they name only what the caller sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRoles {
    /// Nothing between two commas.
    #[error("Invalid 'X-Gravitino-Active-Roles' header: empty role entry in value '{0}'")]
    EmptyEntry(String),
    /// `ALL` or `NONE` beside another entry.
    #[error("Invalid 'X-Gravitino-Active-Roles' header: reserved keyword ALL/NONE must appear alone in value '{0}'")]
    KeywordWithOthers(String),
}

impl ActiveRoles {
    /// Reads the value of the first such header: `ALL`, `NONE`, or names between commas.
    ///
    /// No header and a blank one mean [`ActiveRoles::All`]. The keywords count in capitals only; `all` is the name of a
    /// role.
    ///
    /// # Errors
    ///
    /// An empty entry, or a keyword beside others.
    pub fn parse(value: Option<&str>) -> Result<Self, MalformedRoles> {
        let value = value.unwrap_or_default();
        match value.trim() {
            "" | "ALL" => return Ok(Self::All),
            "NONE" => return Ok(Self::None),
            _ => {}
        }
        let mut names: Vec<Box<str>> = Vec::new();
        let mut keyword = false;
        for name in value.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(MalformedRoles::EmptyEntry(value.to_owned()));
            }
            keyword |= name == "ALL" || name == "NONE";
            names.push(name.into());
        }
        if keyword {
            return Err(MalformedRoles::KeywordWithOthers(value.to_owned()));
        }
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Ok(Self::Named(names.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_as_the_real_server_reads_it() {
        let named = |names: &[&str]| Some(ActiveRoles::Named(names.iter().map(|name| Box::from(*name)).collect()));
        let rows = [
            (None, Some(ActiveRoles::All)),
            (Some(""), Some(ActiveRoles::All)),
            (Some("  "), Some(ActiveRoles::All)),
            (Some("ALL"), Some(ActiveRoles::All)),
            (Some(" ALL "), Some(ActiveRoles::All)),
            (Some("NONE"), Some(ActiveRoles::None)),
            (Some("all"), named(&["all"])),
            (Some("none"), named(&["none"])),
            (Some("a"), named(&["a"])),
            (Some(" a , b "), named(&["a", "b"])),
            (Some("a,b,a"), named(&["a", "b"])),
            (Some("a b"), named(&["a b"])),
            (Some("a;b"), named(&["a;b"])),
            (Some("*"), named(&["*"])),
            (Some(","), None),
            (Some("a,,b"), None),
            (Some("a,"), None),
            (Some("ALL,a"), None),
            (Some("NONE,a"), None),
            (Some("ALL,NONE"), None),
        ];
        for (value, expected) in rows {
            assert_eq!(ActiveRoles::parse(value).ok(), expected, "{value:?}");
        }
    }

    #[test]
    fn malformed_headers_are_named_in_gravitinos_words() {
        let text = |value| ActiveRoles::parse(Some(value)).expect_err("malformed").to_string();
        assert_eq!(text("a,,b"), "Invalid 'X-Gravitino-Active-Roles' header: empty role entry in value 'a,,b'");
        let keyword = "Invalid 'X-Gravitino-Active-Roles' header: reserved keyword ALL/NONE must appear alone in value";
        assert_eq!(text("ALL,a"), format!("{keyword} 'ALL,a'"));
    }
}
