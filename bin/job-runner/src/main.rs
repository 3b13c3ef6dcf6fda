//! `weir-job-runner`: tells the three roles apart, before anything costly is set up.

use std::process::ExitCode;

use clap::Parser as _;
use job_runner::args::{Args, Role, STATUS_CONFIG, one_line};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == job_runner::shepherd::ARGUMENT)
    {
        return job_runner::shepherd::main();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            logs::say(&format!("weir-job-runner: {}", one_line(&error)));
            return ExitCode::from(STATUS_CONFIG);
        }
    };
    let stop_with_parent = args.stop_with_parent;
    let role = args.role();
    logs::init();
    if stop_with_parent
        && let Err(error) =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
    {
        tracing::warn!(%error, "would outlive its parent");
    }
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            logs::say(&format!(
                "weir-job-runner: failed to start its runtime: {error}"
            ));
            return ExitCode::FAILURE;
        }
    };
    let result = match role {
        Role::Engine(config) => runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let shutdown = async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            job_runner::run(config, shutdown).await
        }),
        Role::Node(config) => runtime.block_on(job_runner::node::run(config)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logs::say(&format!("weir-job-runner: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
