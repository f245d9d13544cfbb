//! Reads bytes into documents and documents into objects, exactly as RKE2 does.
//!
//! Pure: bytes come in, values with file and line go out. Nothing here knows about rules, plans or the cluster. The
//! YAML rules are those of Kubernetes' own readers, confirmed on the real deploy controller
//! (`docs/reading-manifests.md`).

mod budget;
mod digest;
pub mod encoding;
pub mod file_kind;
pub mod json;
mod lines;
mod name;
mod node;
mod object;
mod objects;
mod paths;
mod read;
mod scalar;
pub mod split;
mod template;
#[cfg(test)]
mod tests;
pub mod yaml;

pub use budget::{MOST_PROBLEMS, memory_of_node};
pub use digest::{sha256, sha256_hex};
pub use encoding::decode_base64;
pub use lines::{InnerLines, OuterLines, inner_lines};
pub use name::object_name_refusal;
pub use name::{namespace_name_error, object_name_error};
pub use node::{MapEntry, Node, NodeValue};
pub use object::{GroupKind, Object, ObjectRef, PodTemplate, group_of};
pub use paths::{
    APPLIED_BY_IMAGE_BUILDER, AddonName, BaseName, DATA_DIR, MARKER_SUFFIX, ManifestPath,
    MarkerPath, is_manifest_name,
};
pub use read::{nodes, nodes_and_problems, nodes_problems_and_repeated_key};
pub use read::{read, read_each};

use crate::reasons::{Code, Severity};

/// The content of a directory entry, as the scan found it. The scan opens nothing that could block and reads nothing
/// outside the directory.
#[derive(Debug, Clone, PartialEq)]
pub enum FileContent {
    /// A regular file (or a link to one inside the directory) and its bytes.
    Bytes(Vec<u8>),
    /// A regular file above the size limit; it was not read.
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// A regular file that was not read: the files before it already reach the limit for one scan of the directory.
    NoRoom {
        /// Its size in bytes.
        size: u64,
    },
    /// A FIFO: RKE2 hangs forever when it opens it.
    Fifo,
    /// A socket or device.
    Special {
        /// Its type, in words.
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
    /// Its name is not UTF-8: neither an Addon of RKE2 nor a marker can have such a name.
    NotUtf8Name {
        /// Its type in words, if it is not a regular file: such a path may also lead through a directory whose name is
        /// not UTF-8.
        special: Option<&'static str>,
    },
    /// The file exists but cannot be read.
    Unreadable {
        /// The reason, in the system's words.
        error: String,
    },
}

/// Limits against hostile input. The configuration can set each of them.
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
    /// Most bytes that are read from the directory in one scan, and unpacked from one configuration.
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

/// A problem of a file, with its place and an advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    /// Line, counted from 1, if it can be determined.
    pub line: Option<u32>,
    /// The problem and its solution, in a sentence.
    pub message: String,
}

impl Problem {
    /// Whether RKE2 refuses something because of it. RKE2 never refuses files that it does not read.
    pub fn refuses(&self) -> bool {
        self.code.severity() == Severity::Error && self.code != Code::BehindDocumentEnd
    }
}

/// One document of a file and the objects it declares. A List has more than one object. Empty documents and those with
/// only comments have none, and are not kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// First line of the document's content, counted from 1.
    pub line: u32,
    pub objects: Vec<Object>,
}

/// A manifest file with its documents and problems.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFile {
    pub path: ManifestPath,
    /// The valid documents. RKE2 applies none of them when `problems` has a `file-refused`; of a file with an
    /// `object-refused` it applies the rest.
    pub documents: Vec<Document>,
    /// All reasons for which RKE2 will refuse the file or an object, and all values above the limits.
    pub problems: Vec<Problem>,
    /// Hex SHA-256 of the bytes: the value of `Addon.spec.checksum` after RKE2 applied them. Empty when the bytes were
    /// not read.
    pub sha256: String,
    /// Digest of the objects, which identifies the content. It does not depend on formatting, comments, the order of
    /// keys, or the values that RKE2 itself writes into HelmChart files (`spec.set.global.*`).
    pub digest: String,
}

impl ManifestFile {
    /// Every object of the file, in order.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.documents.iter().flat_map(|document| &document.objects)
    }

    /// The first error of the file, whether RKE2 refuses the whole file or only one of its objects.
    pub fn refused(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.refuses())
    }
}
