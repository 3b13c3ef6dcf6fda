//! `weir completions`: what a shell needs to complete weir's command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// The script goes to standard output; put it where your shell looks for such scripts.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir completions bash > ~/.local/share/bash-completion/completions/weir
  weir completions zsh > ~/.zfunc/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish

EXIT STATUS
  0  the script was written
  2  the shell is not one of those listed")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Writes the script.
///
/// # Errors
/// Standard output is gone.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::cli::Cli::command(),
        "weir",
        &mut script,
    );
    let mut out = crate::output::stdout();
    std::io::Write::write_all(&mut out, &script)?;
    std::io::Write::flush(&mut out)?;
    Ok(())
}
