//! Panics that are caught: the YAML parser has them for a few malformed tags, and a file reader reports them as errors
//! of the file.

use std::panic::{PanicHookInfo, set_hook, take_hook};

/// Whether this is one of them.
pub fn is_caught(panic: &PanicHookInfo<'_>) -> bool {
    let place = panic.location();
    place.is_some_and(|place| place.file().contains("/libyaml-safer-"))
}

/// Makes the panic hook print only the others.
pub fn print_no_caught_panics() {
    let print = take_hook();
    set_hook(Box::new(move |panic| {
        if !is_caught(panic) {
            print(panic);
        }
    }));
}
