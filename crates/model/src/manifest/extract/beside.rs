//! Files that lie beside a configuration and that it takes in. Whoever calls reads them: nothing here knows a disk.

/// What lies beside a configuration.
pub trait FilesBeside {
    /// Is it known at all?
    fn is_known(&self) -> bool {
        true
    }

    /// A regular file; `None` where there is none of this path.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, for a message.
    fn read(&self, path: &str) -> Result<Option<FileBeside>, String>;

    /// The paths of all files below a directory, in byte order, each below that directory; `None` where there is
    /// no such directory.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, for a message.
    fn below(&self, directory: &str) -> Result<Option<Vec<String>>, String>;
}

/// One such file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBeside {
    /// How it is called in messages.
    pub shown: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Of a text without a place of its own, such as standard input.
#[derive(Debug, Clone, Copy)]
pub struct NothingBeside;

/// Why nothing is read there.
const NO_PLACE: &str = "what lies beside this text is not known; give its file by name";

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
