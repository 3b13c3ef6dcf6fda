//! `weir`: arguments in, exit status out. What it does is in the library beside it.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(weir_cli::run(std::env::args_os().collect()))
}
