//! A caller in one metalake, looked up once for many questions.

use std::sync::Arc;

use super::access::{Need, examine};
use super::metalake::{Actor, Metalake};
use super::name::{FullName, NameFault};
use super::privilege::ObjectType;
use super::roles::ActiveRoles;
use super::world::{Identity, World};

/// A caller in one metalake of a world, its user row, groups and roles found already.
#[derive(Debug)]
pub struct Viewer {
    world: Arc<World>,
    metalake: Arc<str>,
    /// `None` without a user row, and in a metalake that the world does not know.
    actor: Option<Actor>,
}

impl Viewer {
    /// The caller there, with those active roles. Roles that are not held count for nothing.
    pub fn new(world: &Arc<World>, who: &Identity<'_>, roles: &ActiveRoles, metalake: &Arc<str>) -> Self {
        let actor = world.metalakes.get(&**metalake).and_then(|metalake| metalake.actor(who, roles));
        Self { world: Arc::clone(world), metalake: Arc::clone(metalake), actor }
    }

    /// The same caller, that owns these objects too, whose names are folded.
    pub fn owning(&self, objects: &[(ObjectType, &str)]) -> Self {
        let actor = self.actor.as_ref().map(|actor| actor.owning(objects));
        Self { world: Arc::clone(&self.world), metalake: Arc::clone(&self.metalake), actor }
    }

    /// Whether the caller sees that object: as [`sees`](super::sees).
    ///
    /// # Errors
    ///
    /// A name that does not resolve.
    pub fn sees(&self, kind: ObjectType, name: &str) -> Result<bool, NameFault> {
        let metalake = self.world.metalakes.get(&*self.metalake);
        visible(metalake.zip(self.actor.as_ref()), kind, name)
    }
}

/// Whether that caller of that metalake sees an object; outside of one, and without a row in it, it sees none.
pub(super) fn visible(caller: Option<(&Metalake, &Actor)>, kind: ObjectType, name: &str) -> Result<bool, NameFault> {
    let parsed = FullName::parse(kind, name)?;
    let Some((metalake, actor)) = caller else { return Ok(false) };
    let folded = metalake.fold(kind, name);
    let name = if *folded == *name { parsed } else { FullName::parse(kind, &folded)? };
    Ok(examine(metalake, actor, &name, Need::Visible).allows())
}
