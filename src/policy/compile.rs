//! Policy files → [`World`], or every fault of meaning in all of them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::fault::{Fault, Place};
use super::file::PolicyFile;
use super::world::World;

mod metalake;
mod namespaces;

/// Faults that are listed; the rest is counted.
const LISTED_FAULTS: usize = 1000;

/// A policy file that was read.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name in faults.
    pub file: PathBuf,
    /// What stands in it.
    pub policy: PolicyFile,
}

/// Makes one world out of all files.
///
/// # Errors
///
/// All faults of meaning, each with file and place.
pub fn compile(sources: Vec<Source>) -> Result<World, Vec<Fault>> {
    compile_beside(sources, &BTreeSet::new())
}

/// The same, beside a Gravitino server that governs these metalakes by name.
///
/// # Errors
///
/// Also a fault for each place that names one of them, and that would decide instead of the server, or never.
pub fn compile_beside(sources: Vec<Source>, elsewhere: &BTreeSet<String>) -> Result<World, Vec<Fault>> {
    let mut report = Report::default();
    let mut seen = Seen::default();
    let mut world = World::default();
    for Source { file, policy } in sources {
        let mut at = At { file: &file, report: &mut report };
        for (index, shape) in policy.metalakes.into_iter().enumerate() {
            if elsewhere.contains(&shape.name) {
                let message = format!(
                    "metalake `{}` stands in policy.gravitino.metalakes of the configuration, too: leave it out of one of \
                     them",
                    shape.name
                );
                at.fault(|| format!("metalakes[{index}].name"), message);
            }
            if let Some(first) = seen.metalakes.get(&shape.name) {
                let message = format!("metalake `{}` stands in {} already", shape.name, first.display());
                at.fault(|| format!("metalakes[{index}].name"), message);
                continue;
            }
            seen.metalakes.insert(shape.name.clone(), file.clone());
            if let Some(metalake) = metalake::compile(index, shape, &mut at) {
                world.metalakes.insert(metalake.name.clone(), metalake);
            }
        }
        for (index, rule) in policy.namespaces.into_iter().enumerate() {
            if let Some(first) = seen.rules.get(&rule.name) {
                let message = format!("rule `{}` stands in {} already", rule.name, first.display());
                at.fault(|| format!("namespaces[{index}].name"), message);
                continue;
            }
            seen.rules.insert(rule.name.clone(), file.clone());
            namespaces::check(index, &rule, &mut at);
            namespaces::add(&mut world.rules, &rule);
            seen.datasets.extend(namespaces::dataset_namespaces(index, &rule, &file));
        }
    }
    for (file, place, namespace) in &seen.datasets {
        if world.is_metalake(namespace) {
            let message =
                format!("`{namespace}` is a metalake: its own rules decide about its datasets, so drop this entry");
            At { file, report: &mut report }.fault(|| place.clone(), message);
        } else if elsewhere.contains(namespace) {
            let message = format!(
                "`{namespace}` stands in policy.gravitino.metalakes of the configuration: Gravitino decides about its \
                 datasets, so drop this entry"
            );
            At { file, report: &mut report }.fault(|| place.clone(), message);
        }
    }
    report.into_result(world)
}

/// What was named before, and where.
#[derive(Debug, Default)]
struct Seen {
    metalakes: HashMap<String, PathBuf>,
    rules: HashMap<String, PathBuf>,
    datasets: Vec<(PathBuf, String, String)>,
}

/// The faults so far.
#[derive(Debug, Default)]
struct Report {
    faults: Vec<Fault>,
    more: usize,
}

/// The file at hand.
struct At<'a> {
    file: &'a Path,
    report: &'a mut Report,
}

impl At<'_> {
    fn fault(&mut self, place: impl FnOnce() -> String, message: impl Into<String>) {
        if self.report.faults.len() >= LISTED_FAULTS {
            self.report.more += 1;
            return;
        }
        let place = Place::Path(place());
        self.report.faults.push(Fault { file: self.file.to_owned(), place, message: message.into() });
    }
}

impl Report {
    fn into_result(mut self, world: World) -> Result<World, Vec<Fault>> {
        if self.faults.is_empty() {
            return Ok(world);
        }
        if self.more > 0
            && let Some(last) = self.faults.last()
        {
            let message = format!("and {} more faults", self.more);
            self.faults.push(Fault { file: last.file.clone(), place: Place::Whole, message });
        }
        Err(self.faults)
    }
}

#[cfg(test)]
mod tests;
