//! `weir-job-runner`: tells the three roles apart, before anything costly is set up.

use std::process::ExitCode;

use job_runner::args::{Args, NAME, Role};

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == job_runner::shepherd::ARGUMENT)
    {
        return job_runner::shepherd::main();
    }
    let args: Args = match daemon::arguments(NAME) {
        Ok(args) => args,
        Err(status) => return status,
    };
    logs::init();
    if let Err(status) = args.parent.watch() {
        return status;
    }
    let role = args.role();
    daemon::run(NAME, async {
        let ended = match role {
            Role::Engine(config) => job_runner::run(config, daemon::signals()).await,
            Role::Node(config) => job_runner::node::run(config).await,
        };
        ended.map(|()| ExitCode::SUCCESS).map_err(|error| {
            let status = if error.is::<job_runner::CannotStart>() {
                daemon::STATUS_CONFIG
            } else {
                1
            };
            (status, format!("{error:#}"))
        })
    })
}
