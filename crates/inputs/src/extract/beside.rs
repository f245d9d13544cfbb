//! Files next to a configuration that are part of it. The caller reads them, so that this crate needs no access to a
//! disk.

pub trait FilesBeside {
    fn is_known(&self) -> bool {
        true
    }

    /// A regular file; `None` if this path does not exist.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, for a message.
    fn read(&self, path: &str) -> Result<Option<FileBeside>, String>;

    /// The paths of all files below a directory, in byte order, each relative to that directory; `None` if there is no
    /// such directory.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, for a message.
    fn below(&self, directory: &str) -> Result<Option<Vec<String>>, String>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBeside {
    /// Its name in messages.
    pub shown: String,
    pub bytes: Vec<u8>,
}

/// For a text without a directory, such as standard input.
#[derive(Debug, Clone, Copy)]
pub struct NothingBeside;

/// Why nothing is read there.
const NO_PLACE: &str = "Windrow cannot read the files next to this text; give the file by name";

impl FilesBeside for NothingBeside {
    fn is_known(&self) -> bool {
        false
    }

    fn read(&self, _: &str) -> Result<Option<FileBeside>, String> {
        Err(NO_PLACE.to_owned())
    }

    fn below(&self, _: &str) -> Result<Option<Vec<String>>, String> {
        Err(NO_PLACE.to_owned())
    }
}
