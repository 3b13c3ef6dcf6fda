//! `weir`: arguments in, exit status out. What it does is in the library beside it.

/// The status when the program itself is wrong (EX_SOFTWARE).
const STATUS_BUG: i32 = 70;

fn main() -> std::process::ExitCode {
    // A bug is one line too, and says what to do with it.
    std::panic::set_hook(Box::new(|panic| {
        weir_cli::output::complain(&format!("internal error, please report it: {panic}"));
        std::process::exit(STATUS_BUG);
    }));
    std::process::ExitCode::from(weir_cli::run(std::env::args_os().collect()))
}
