"""Jobs that end while the job-runner is dead: SIGSTOP holds its supervisor off, so that the gap is as long as we like."""
import os
import signal

import daemons
import survive
import tap
import wire


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def main():
    client = wire.Client()
    listener = tap.Tap().catch_up()
    for number in (8, 9):
        if os.path.exists(f"gate.{number}"):
            os.unlink(f"gate.{number}")
    first = survive.submit(client, survive.BODY, "body", "8", "exit 5")
    second = survive.submit(client, survive.BODY, "body", "9", "kill -15 $$")
    wire.until("the bodies began", lambda: survive.bodies()[first] and survive.bodies()[second])
    third = survive.submit(client, survive.QUICK, "body", "1", "0", cores=survive.CORES)
    listener.all_have("start", [first, second])
    runner = daemons.of("weir-job-runner")
    supervisor = parent(runner)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(runner, signal.SIGKILL)
        pids = survive.bodies()[first] + survive.bodies()[second]
        for number in (8, 9):
            with open(f"gate.{number}", "w", encoding="ascii"):
                pass
        for pid in pids:
            daemons.gone(pid)
        states = {row["id"]: row["state"] for row in wire.list_jobs(client, ["state"])}
        survive.equal([states[ident] for ident in (first, second, third)], [16, 16, 8], "states while no runner is there")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    daemons.wait_for("weir-job-runner", runner)
    listener.all_clean([first, second, third])
    survive.ended_well(client, {first: 5 << 8, second: 143 << 8, third: 0})
    survive.once([first, second, third])
    survive.all_free(survive.CORES)
    survive.compare_all()


if __name__ == "__main__":
    main()
