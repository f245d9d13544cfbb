//! The thin binary: parse, run the verb, exit with its code.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    windrow::cli::main()
}
