//! One read of the server's API: paths, bodies, and whose credential is shown.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use http::HeaderValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::policy::ObjectType;
use crate::upstream::{Read, Reader, Unread};

use super::metrics::{Call, Metrics};
use super::reading::{Asked, Reading, Words, read_owner, trouble};
use super::{Asker, Trouble};

/// Bytes of an answer: a metalake's users, or a role with all its objects.
const CAP: usize = 16 * 1024 * 1024;

/// Bytes of a path: the least that web servers and proxies take by default is a request line of 8 KiB.
const LONGEST_PATH: usize = 7 * 1024;

/// Bytes of an answer to an owner question.
const SMALL_CAP: usize = 64 * 1024;

/// Asks the server, and counts what was asked.
pub(super) struct Caller {
    reader: Arc<Reader>,
    host: String,
    metrics: Metrics,
}

/// Whose credential is shown.
#[derive(Clone, Copy)]
pub(super) enum As<'a> {
    /// The gate's own, if it has one.
    Service,
    /// The caller's.
    Asker(Option<&'a HeaderValue>),
}

/// What a typed read gave.
#[derive(Debug)]
pub(super) enum Got<T> {
    /// It is there.
    Found(T),
    /// It does not exist.
    Missing,
    /// It may not be read.
    Forbidden,
}

/// Who owns something; a missing owner is left out by the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct OwnerBody {
    #[serde(default)]
    pub(super) owner: Option<Owner>,
}

/// An owner.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Owner {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct MeBody {
    principal: String,
}

#[derive(Deserialize)]
struct UserBody {
    user: Member,
}

#[derive(Deserialize)]
struct GroupBody {
    group: Member,
}

/// A user or a group, with the roles that it was given directly.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Member {
    pub(super) name: String,
    /// Left out is not the same as none.
    #[serde(default)]
    pub(super) roles: Option<Vec<String>>,
}

impl Member {
    /// The roles that are known to be its own.
    pub(super) fn role_names(&self) -> BTreeSet<&str> {
        self.roles.iter().flatten().map(String::as_str).collect()
    }
}

/// A list, with details where the server gives them.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Members {
    #[serde(default, alias = "users", alias = "groups")]
    pub(super) members: Option<Vec<Member>>,
    #[serde(default)]
    pub(super) names: Vec<String>,
}

#[derive(Deserialize)]
struct NamesBody {
    names: Vec<String>,
}

#[derive(Deserialize)]
struct RoleBody {
    role: Role,
}

/// A role's objects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Role {
    #[serde(default)]
    pub(super) securable_objects: Vec<Securable>,
}

/// What a role says about one object.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Securable {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) full_name: String,
    pub(super) privileges: Vec<Condition>,
}

/// One privilege, allowed or denied.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Condition {
    pub(super) name: String,
    pub(super) condition: String,
}

/// A catalog, of which only what decides about letter case is read.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Catalog {
    pub(super) name: String,
    #[serde(default)]
    pub(super) provider: String,
}

#[derive(Deserialize)]
struct CatalogsBody {
    catalogs: Vec<Catalog>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct MetalakesBody {
    metalakes: Vec<Named>,
}

impl Owner {
    pub(super) fn is_group(&self) -> bool {
        self.kind.eq_ignore_ascii_case("group")
    }
}

impl<'a> From<&Asker<'a>> for As<'a> {
    fn from(asker: &Asker<'a>) -> Self {
        Self::Asker(asker.authorization)
    }
}

impl Caller {
    pub(super) fn new(reader: Arc<Reader>, host: String, metrics: Metrics) -> Self {
        Self { reader, host, metrics }
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// One GET. The fault names the server and what was asked, no credential.
    pub(super) async fn get(
        &self,
        call: Call,
        path: &str,
        who: As<'_>,
        active_roles: Option<&HeaderValue>,
    ) -> Result<Read, Trouble> {
        let started = Instant::now();
        let cap = if call == Call::Owner { SMALL_CAP } else { CAP };
        let read = match who {
            As::Service => self.reader.get_own(path, active_roles, cap).await,
            As::Asker(authorization) => self.reader.get_as(path, authorization, active_roles, cap).await,
        };
        self.metrics.asked(call, read.as_ref().ok().map(|read| read.status), started.elapsed());
        read.map_err(|fault| {
            let text = fault.to_string();
            let trouble = match fault {
                Unread::Failed(_) => Trouble::Unavailable(text),
                Unread::Path => Trouble::Rejected(text),
            };
            self.placed(path, trouble)
        })
    }

    /// The same trouble, saying where it happened.
    pub(super) fn placed(&self, path: &str, trouble: Trouble) -> Trouble {
        let place = |text| format!("Gravitino at {}: GET {path}: {text}", self.host);
        match trouble {
            Trouble::CallerUnauthenticated => Trouble::CallerUnauthenticated,
            Trouble::Unavailable(text) => Trouble::Unavailable(place(text)),
            Trouble::Undecided(text) => Trouble::Undecided(place(text)),
            Trouble::Rejected(text) => Trouble::Rejected(place(text)),
        }
    }

    /// The answer to an owner question, unread.
    pub(super) async fn owner(
        &self,
        who: As<'_>,
        active_roles: Option<&HeaderValue>,
        metalake: &str,
        (kind, name): (ObjectType, &str),
    ) -> Result<Read, Trouble> {
        self.get(Call::Owner, &owner_path(metalake, kind, name), who, active_roles).await
    }

    /// The owner of an object; `Found(None)` where it has none.
    pub(super) async fn owner_of(
        &self,
        who: As<'_>,
        metalake: &str,
        (kind, name): (ObjectType, &str),
    ) -> Result<Got<Option<Owner>>, Trouble> {
        let read = self.owner(who, None, metalake, (kind, name)).await?;
        let path = owner_path(metalake, kind, name);
        let failed = |trouble| Err(self.placed(&path, trouble));
        match read_owner(&read, &Asked { metalake, kind, name }) {
            Reading::Passed if read.status == 200 => match serde_json::from_slice::<OwnerBody>(&read.body) {
                Ok(body) => Ok(Got::Found(body.owner)),
                Err(error) => {
                    failed(Trouble::Unavailable(format!("answered with another shape than expected: {error}")))
                }
            },
            Reading::Passed if read.status == 409 => failed(Trouble::Rejected("it is not in use".to_owned())),
            Reading::Passed | Reading::MissingCatalog => Ok(Got::Missing),
            Reading::Refused => Ok(Got::Forbidden),
            Reading::Unauthenticated => Err(Trouble::CallerUnauthenticated),
            Reading::AuthorizationOff => failed(Trouble::Unavailable("runs without authorization".to_owned())),
            Reading::Trouble(trouble) => failed(trouble),
        }
    }

    /// The principal that the server sees behind a credential.
    pub(super) async fn principal(&self, who: As<'_>) -> Result<String, Trouble> {
        let path = "/api/authn/me";
        match self.typed::<MeBody>(Call::Principal, path, who).await? {
            Got::Found(body) => Ok(body.principal),
            Got::Missing | Got::Forbidden => {
                Err(self.placed(path, Trouble::Rejected("does not say who the caller is".to_owned())))
            }
        }
    }

    pub(super) async fn user(&self, who: As<'_>, metalake: &str, user: &str) -> Result<Got<Member>, Trouble> {
        let path = format!("{}/users/{}", metalake_path(metalake), segment(user));
        Ok(self.typed::<UserBody>(Call::User, &path, who).await?.map(|body| body.user))
    }

    pub(super) async fn group(&self, who: As<'_>, metalake: &str, group: &str) -> Result<Got<Member>, Trouble> {
        let path = format!("{}/groups/{}", metalake_path(metalake), segment(group));
        Ok(self.typed::<GroupBody>(Call::Group, &path, who).await?.map(|body| body.group))
    }

    /// All users, or all groups, that this credential may see.
    pub(super) async fn members(&self, who: As<'_>, metalake: &str, call: Call) -> Result<Got<Members>, Trouble> {
        let list = if call == Call::Group { "groups" } else { "users" };
        self.typed(call, &format!("{}/{list}?details=true", metalake_path(metalake)), who).await
    }

    /// The roles that this credential may see: those that are held, and more for who manages them.
    pub(super) async fn roles(&self, who: As<'_>, metalake: &str) -> Result<Got<Vec<String>>, Trouble> {
        let path = format!("{}/roles", metalake_path(metalake));
        Ok(self.typed::<NamesBody>(Call::Role, &path, who).await?.map(|body| body.names))
    }

    pub(super) async fn role(&self, who: As<'_>, metalake: &str, role: &str) -> Result<Got<Role>, Trouble> {
        let path = format!("{}/roles/{}", metalake_path(metalake), segment(role));
        Ok(self.typed::<RoleBody>(Call::Role, &path, who).await?.map(|body| body.role))
    }

    pub(super) async fn catalogs(&self, who: As<'_>, metalake: &str) -> Result<Got<Vec<Catalog>>, Trouble> {
        let path = format!("{}/catalogs?details=true", metalake_path(metalake));
        Ok(self.typed::<CatalogsBody>(Call::Catalogs, &path, who).await?.map(|body| body.catalogs))
    }

    pub(super) async fn metalakes(&self, who: As<'_>) -> Result<Vec<String>, Trouble> {
        let path = "/api/metalakes";
        match self.typed::<MetalakesBody>(Call::Metalakes, path, who).await? {
            Got::Found(body) => Ok(body.metalakes.into_iter().map(|named| named.name).collect()),
            Got::Missing | Got::Forbidden => {
                Err(self.placed(path, Trouble::Unavailable("lists no metalakes".to_owned())))
            }
        }
    }

    /// A read whose body is needed.
    async fn typed<T: DeserializeOwned>(&self, call: Call, path: &str, who: As<'_>) -> Result<Got<T>, Trouble> {
        let read = self.get(call, path, who, None).await?;
        let code = Words::of(&read).and_then(|words| words.code);
        match (read.status, code) {
            (200, Some(0)) => serde_json::from_slice(&read.body).map(Got::Found).map_err(|error| {
                self.placed(path, Trouble::Unavailable(format!("answered with another shape than expected: {error}")))
            }),
            (404, Some(1003)) => Ok(Got::Missing),
            (403, Some(1008)) => Ok(Got::Forbidden),
            _ => Err(self.placed(path, trouble(&read))),
        }
    }
}

impl<T> Got<T> {
    fn map<U>(self, map: impl FnOnce(T) -> U) -> Got<U> {
        match self {
            Self::Found(found) => Got::Found(map(found)),
            Self::Missing => Got::Missing,
            Self::Forbidden => Got::Forbidden,
        }
    }
}

/// `/api/metalakes/{m}/owners/{type}/{fullName}`. A metalake's full name is its own.
pub(super) fn owner_path(metalake: &str, kind: ObjectType, name: &str) -> String {
    format!("{}/owners/{}/{}", metalake_path(metalake), kind.word(), segment(name))
}

fn metalake_path(metalake: &str) -> String {
    format!("/api/metalakes/{}", segment(metalake))
}

/// One path segment: all but the unreserved characters of RFC 3986 2.3 is percent-encoded. A lone `.` or `..` would be
/// taken for a step by servers and proxies, encoded or not; no Gravitino object can have that name.
fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            segment.push(char::from(byte));
        } else {
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

/// Whether both names can stand in a path and come out the same at the server, and the path is one that servers and
/// proxies take.
pub(super) fn can_be_asked(metalake: &str, (kind, name): (ObjectType, &str)) -> bool {
    let is_whole = |name: &str| !matches!(name, "" | "." | "..");
    // At most three bytes for one; this is asked for each dataset of an event.
    let is_short = 3 * (metalake.len() + name.len()) < LONGEST_PATH / 2;
    is_whole(metalake) && is_whole(name) && (is_short || owner_path(metalake, kind, name).len() <= LONGEST_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_is_percent_encoded() {
        let path = owner_path("demo", ObjectType::Table, "lake.a/b=ö.x y%2F?#");
        assert_eq!(path, "/api/metalakes/demo/owners/table/lake.a%2Fb%3D%C3%B6.x%20y%252F%3F%23");
    }

    #[test]
    fn names_that_cannot_stand_in_a_path_are_not_asked_about() {
        let table = ObjectType::Table;
        for (metalake, name, expected) in [
            ("demo", "a.b..", true),
            ("demo", "..", false),
            ("demo", ".", false),
            ("demo", "", false),
            ("..", "a.b.c", false),
            ("demo", &*"x".repeat(4_000), true),
            ("demo", &*"x".repeat(9_000), false),
            ("demo", &*"ö".repeat(1_400), false),
            (&*"x".repeat(9_000), "a.b.c", false),
        ] {
            assert_eq!(can_be_asked(metalake, (table, name)), expected, "{}", name.len());
        }
    }
}
