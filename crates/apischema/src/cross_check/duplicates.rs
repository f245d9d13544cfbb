//! Objects that two files declare with different values of a field that cannot be changed: RKE2 fails with one of the
//! files forever.

use std::collections::BTreeMap;

use windrow_model::findings::Finding;
use windrow_model::manifest::{Node, Object, ObjectRef};
use windrow_model::reasons::Code;
use windrow_plan::SourceMap;

use super::finding;
use super::refusals::in_cluster;
use crate::FixedFields;

#[derive(Debug, Default)]
pub(super) struct Duplicates {
    file: usize,
    /// By its name in the cluster: the last declaration of each file.
    declared: BTreeMap<ObjectRef, Vec<Declaration>>,
}

#[derive(Debug)]
struct Declaration {
    file: usize,
    /// With the name in its manifest.
    id: ObjectRef,
    fields: FixedFields,
    /// The line of each field, and the first line of the object.
    lines: BTreeMap<&'static str, u32>,
    line: u32,
    shown: SourceMap,
}

impl Duplicates {
    /// The next objects are from another file.
    pub(super) fn begin_file(&mut self) {
        self.file += 1;
    }

    pub(super) fn add(&mut self, object: &Object, shown: &SourceMap) {
        if object.is_name_generated() {
            return;
        }
        let kind = object.id.group_kind();
        let value = |keys: &[&str]| object.node.at(keys).map(Node::to_json);
        let Some(fields) = FixedFields::read(&kind, value) else {
            return;
        };
        let lines = fields.names().filter_map(|field| {
            let keys: Vec<&str> = field.split('.').collect();
            Some((field, object.node.at(&keys)?.line))
        });
        let declaration = Declaration {
            file: self.file,
            id: object.id.clone(),
            lines: lines.collect(),
            line: object.line,
            fields,
            shown: shown.clone(),
        };
        let of_object = self.declared.entry(in_cluster(object)).or_default();
        of_object.retain(|other| other.file != self.file);
        of_object.push(declaration);
    }

    /// `is_taken`: whether kube-apiserver accepts the object under the name in its manifest.
    pub(super) fn finish(&self, is_taken: &impl Fn(&ObjectRef) -> bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        for declarations in self.declared.values() {
            let mut taken = declarations.iter().filter(|one| is_taken(&one.id));
            let Some(first) = taken.next() else {
                continue;
            };
            findings.extend(taken.find_map(|second| difference(first, second)));
        }
        findings
    }
}

fn difference(first: &Declaration, second: &Declaration) -> Option<Finding> {
    // In one pass the second follows the first, and in the next the first follows the second.
    let differing = first.fields.refuse(&second.fields);
    let differing = differing.or_else(|| second.fields.refuse(&first.fields))?;
    let why = match differing.replaces {
        true => "RKE2 deletes it for that, over and over",
        false => "this field cannot be changed after creation",
    };
    let what = second.id.to_string();
    let words = [("what", &*what), ("field", differing.field), ("why", why)];
    let code = Code::DuplicateRefused;
    let at = [second, first].map(|one| {
        let line = one.lines.get(differing.field).unwrap_or(&one.line);
        one.shown.at(Some(*line))
    });
    Some(finding(code, code.say(&words), at.to_vec()))
}
