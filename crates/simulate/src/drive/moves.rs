//! A user who moves manifests to other directories, and deletes one of two files that have the same name.

use windrow_model::manifest::{AddonName, ManifestPath, MarkerPath};
use windrow_plan::{Plan, PlanFile, SatisfiedBy, rke2};

use super::Drive;
use crate::files::base_name;

/// Target directories: RKE2 reads `0/` before the files of the manifests directory itself, and `sub/` after most of them.
const DIRECTORIES: [&str; 3] = ["", "0/", "sub/"];

impl Drive<'_> {
    /// A file is moved, and a marker next to it stays or is moved as well; or one of two files with the same name is deleted.
    /// Hidden files are moved more often than others.
    pub(super) fn move_a_file(&mut self, who: usize) {
        let disk = &self.disks[who];
        let is_free = |path: &ManifestPath| {
            rke2::owner(path).is_none()
                && path.applied_by().is_none()
                && !self.changes.are_due_for(who, path)
                && !needs_its_place(&self.daemons[who].true_plan, path)
        };
        let paths = disk.manifests().map(|(path, _)| ManifestPath::from(path));
        let paths: Vec<ManifestPath> = paths.filter(is_free).collect();
        let hidden = paths.iter().filter(|path| disk.is_hidden(path)).cloned();
        let hidden: Vec<ManifestPath> = hidden.collect();
        let is_of_hidden = !hidden.is_empty() && self.more.throw(2);
        let paths = if is_of_hidden { hidden } else { paths };
        let Some(path) = self.more.chance().pick(&paths).cloned() else {
            return;
        };
        let name = path.name();
        if self.disks[who].namesakes(&name).count() > 1 && self.more.throw(2) {
            self.record_fault(who, &format!("somebody deletes {path} for good"));
            self.disks[who].remove(&path);
            return;
        }
        let disk = &self.disks[who];
        let targets = DIRECTORIES.map(|directory| [directory, &name].concat());
        let is_open =
            |target: &String| disk.get(target).is_none() && !self.changes.are_due_for(who, target);
        let targets: Vec<String> = targets.into_iter().filter(is_open).collect();
        let Some(target) = self.more.chance().pick(&targets).cloned() else {
            return;
        };
        self.record_fault(who, &format!("somebody moves {path} to {target}"));
        self.disks[who].move_entry(&path, &target);
        let (from, to) = (path.marker(), ManifestPath::from(target.as_str()).marker());
        let is_ours = self.disks[who]
            .get(&from)
            .is_some_and(|entry| entry.is_ours());
        if is_ours && self.more.throw(4) {
            self.record_fault(who, &format!("somebody moves {from} to {to}"));
            self.disks[who].move_entry(&from, &to);
        }
        let moved = &mut self.daemons[who].moved;
        let first = moved.iter().find(|(_, place)| **place == *path);
        let first = first.map_or_else(|| path.to_string(), |(first, _)| first.clone());
        moved.insert(first, target);
    }

    /// A user refers to a moved file by the path of its marker, or by its own.
    pub(super) fn place_of_moved(&mut self, who: usize, file: ManifestPath) -> ManifestPath {
        let (disk, moved) = (&self.disks[who], &self.daemons[who].moved);
        if moved.is_empty() || disk.get(&file).is_some() {
            return file;
        }
        let name = file.name();
        let place = disk.namesakes(&name).next().map(ManifestPath::from);
        place.filter(|_| self.more.throw(2)).unwrap_or(file)
    }

    /// Windrow's marker next to a file, or next to the previous place of a file that a user moved.
    pub(super) fn marker_beside(&self, who: usize, path: &str) -> Option<MarkerPath> {
        let disk = &self.disks[who];
        let beside = ManifestPath::from(path).marker();
        let is_ours = |marker: &str| disk.get(marker).is_some_and(|entry| entry.is_ours());
        if is_ours(&beside) {
            return Some(beside);
        }
        let mut moved = self.daemons[who].moved.values();
        if !moved.any(|place| place == path) {
            return None;
        }
        let ours = disk.iter().filter(|(_, entry)| entry.is_ours());
        let mut markers = ours.filter_map(|(marker, _)| MarkerPath::parse(marker));
        markers.find(|marker| marker.hides().as_str() == base_name(path))
    }
}

/// Does this file depend on one of several files of an Addon, or does such a file depend on it? RKE2 removes the objects of one
/// of them for the other, and in another order it would do so forever.
fn needs_its_place(plan: &Plan, path: &ManifestPath) -> bool {
    let is_shared = |addon: &AddonName| {
        let files = plan.files.iter();
        files.filter(|file| file.addon == *addon).count() > 1
    };
    let relies = |file: &PlanFile, on: &dyn Fn(&PlanFile) -> bool| {
        let mut requirements = file.requirements();
        requirements.any(|requirement| match requirement.satisfied_by {
            SatisfiedBy::File { file, .. } => on(&plan.files[file]),
            _ => false,
        })
    };
    let mut files = plan.files.iter();
    let Some(file) = files.find(|file| file.path == *path) else {
        return false;
    };
    let is_its = |other: &PlanFile| other.addon == file.addon;
    relies(file, &|other| is_shared(&other.addon))
        || is_shared(&file.addon) && plan.files.iter().any(|other| relies(other, &is_its))
}
