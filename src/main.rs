//! The command line program.

fn main() -> std::process::ExitCode {
    gleaner::cli::main()
}
