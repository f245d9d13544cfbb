//! From bytes to documents to objects, exactly as RKE2 would read them.
//!
//! Pure: bytes come in, values with file and line go out. Nothing here knows about rules, plans or
//! the cluster. The YAML rules are those that Kubernetes' own readers follow, seen on the real
//! deploy controller (`docs/reading-manifests.md`).

mod budget;
mod data_url;
mod digest;
mod encoding;
pub mod extract;
pub mod file_kind;
mod json;
pub mod manifest_path;
mod name;
mod node;
mod object;
mod objects;
mod paths;
mod read;
mod scalar;
mod split;
mod template;
#[cfg(test)]
mod tests;
pub mod user_data;
pub mod yaml;

pub use budget::{MOST_PROBLEMS, memory_of_node};
pub use digest::{sha256, sha256_hex};
pub use encoding::decode_base64;
pub use name::object_name_refusal;
pub use name::{namespace_name_error, object_name_error};
pub use node::{MapEntry, Node, NodeValue};
pub use object::{GroupKind, Object, ObjectRef, PodTemplate, group_of};
pub use paths::{
    APPLIED_BY_IMAGE_BUILDER, AddonName, BaseName, MARKER_SUFFIX, ManifestPath, MarkerPath,
    is_manifest_name,
};
pub use read::{nodes, nodes_and_problems};
pub use read::{read, read_each};

use crate::reasons::{Code, Severity};

/// What a directory entry turned out to be, as the scan saw it. Nothing that could block was
/// opened, nothing outside the directory was read.
#[derive(Debug, Clone, PartialEq)]
pub enum FileContent {
    /// A regular file (or a link to one inside the directory) and its bytes.
    Bytes(Vec<u8>),
    /// A regular file above the size limit; it was not read.
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// A regular file for which there was no room: the files before it are as large as is read of the
    /// directory in one look.
    NoRoom {
        /// Its size in bytes.
        size: u64,
    },
    /// A FIFO: RKE2 hangs for good when it opens it.
    Fifo,
    /// A socket or device.
    Special {
        /// What it is, in words.
        what: &'static str,
    },
    /// A symbolic link whose target does not exist: RKE2 then applies nothing at all.
    DanglingSymlink {
        /// The target as written in the link.
        target: String,
    },
    /// A symbolic link that leaves the manifests directory; not followed.
    SymlinkOutside {
        /// The target as written in the link.
        target: String,
    },
    /// Its name is not UTF-8: nothing can be called like it, an Addon of RKE2's no more than a marker.
    NotUtf8Name {
        /// What it is, in words, when it is not a regular file: such a path may also lead through a directory whose name
        /// is not UTF-8.
        special: Option<&'static str>,
    },
    /// The file is there and cannot be read.
    Unreadable {
        /// Why, in the system's words.
        error: String,
    },
}

/// Bounds against hostile input. Every one can be set in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLimits {
    /// Largest file that is read, in bytes.
    pub file_bytes: u64,
    /// Most documents in a file.
    pub documents: usize,
    /// Deepest nesting of lists and maps; never more than 1000.
    pub depth: usize,
    /// Most values that aliases may add to a document.
    pub alias_nodes: usize,
    /// Most memory that the values of one document may take, aliases written out, in bytes.
    pub expanded_bytes: usize,
    /// Most that is read of the directory in one look, and unpacked from one configuration, in
    /// bytes.
    pub directory_bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            documents: 10_000,
            depth: 100,
            alias_nodes: 100_000,
            expanded_bytes: 16 << 20,
            directory_bytes: 32 << 20,
        }
    }
}

/// Something wrong with a file, with the place and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, from the one table.
    pub code: Code,
    /// Line, counted from 1, where it is known.
    pub line: Option<u32>,
    /// What is wrong and what to do, in a sentence.
    pub message: String,
}

impl Problem {
    /// Does something go wrong with what RKE2 reads? It never refuses what it does not read.
    pub fn refuses(&self) -> bool {
        self.code.severity() == Severity::Error && self.code != Code::BehindDocumentEnd
    }
}

/// One document of a file and the objects it declares (more than one for a List, none for an empty
/// or comment-only document, which are not kept).
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// First line of the document's content, counted from 1.
    pub line: u32,
    /// Its objects, in order.
    pub objects: Vec<Object>,
}

/// One manifest file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFile {
    /// Its path.
    pub path: ManifestPath,
    /// The documents that could be read. RKE2 applies none of them when `problems` has a
    /// `file-refused`; of a file with an `object-refused` it applies the rest.
    pub documents: Vec<Document>,
    /// What RKE2 will refuse, and what goes beyond the limits. All of it, not the first.
    pub problems: Vec<Problem>,
    /// Hex SHA-256 of the bytes: what `Addon.spec.checksum` shows once RKE2 applied them. Empty when
    /// the bytes were not read.
    pub sha256: String,
    /// Digest of the objects, by which content is known: formatting, comments, order of keys and
    /// what RKE2 itself writes into HelmChart files (`spec.set.global.*`) do not change it.
    pub digest: String,
}

impl ManifestFile {
    /// Every object of the file, in order.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.documents.iter().flat_map(|document| &document.objects)
    }

    /// The first error of the file, whether RKE2 refuses it whole or only one of its objects.
    pub fn refused(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.refuses())
    }
}
