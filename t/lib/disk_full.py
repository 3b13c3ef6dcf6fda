"""A state file system of 5 MiB that fills up: submits are refused with the reason, reads are answered, and what was acknowledged is there
after space returns and after a restart, with the status of the jobs that ended meanwhile.

    disk_full.py fill       in mount and process namespaces of its own (`unshare`); the state directory is ./state
    disk_full.py stop       the same, and the instance is stopped politely while the disk is full
    disk_full.py kill       the same, and the job-manager is killed while the disk is full
    disk_full.py try        whether a tmpfs can be mounted here at all
"""
import json
import os
import re
import signal
import subprocess
import sys

import daemons
import fold
import survive
import tap
import wire

ENOSPC = 28
SIZE, MORE = "5m", "24m"
# Each job brings this much that is its own: the jobspec is stored once for jobs that have the same.
PADDING = 24 << 10
STATE = os.path.abspath("state")


def mount(*options):
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", STATE], check=True)


def grow():
    subprocess.run(["mount", "-o", f"remount,size={MORE}", STATE], check=True)


def start():
    """An instance; its supervisor."""
    log = open("start.err", "ab")  # pylint: disable=consider-using-with
    process = subprocess.Popen(
        [os.path.join(daemons.BIN, "weir"), "start", f"--statedir={STATE}", "--runner-arg=--cores=0-1", "--runner-arg=--die-with-supervisor"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8",
    )
    line = process.stdout.readline()
    survive.check(line.startswith("weir: ready"), f"no instance: {line!r}; {open('start.err', encoding='utf-8').read()}")
    return process


def stop(supervisor):
    supervisor.send_signal(signal.SIGTERM)
    survive.equal(supervisor.wait(wire.TIMEOUT), 0, "status of the supervisor")


def submit(client, number, **more):
    padding = "".join(f"{number:08}" for _ in range(PADDING // 8))
    return client.call("job-ingest.submit", wire.submission(["true"], environment=survive.ENVIRONMENT | {"PADDING": padding}, **more))


def weir(*words):
    return subprocess.run(
        [os.path.join(daemons.BIN, "weir"), *words], check=False, capture_output=True, text=True, encoding="utf-8", timeout=wire.TIMEOUT
    )


def fill(client):
    """Held jobs until one is refused: the ids that were answered."""
    told, number = [], 0
    while True:
        number += 1
        survive.check(number < 10_000, "the disk does not fill up")
        try:
            told.append(submit(client, number, urgency=0)["id"])
        except wire.Refused as refused:
            survive.equal(refused.errnum, ENOSPC, f"errno of a refused submit ({refused.text})")
            survive.check(re.search("space|disk", refused.text), f"the reason is not told: {refused.text}")
            return told


def reads(client, known, running):
    """Everything that only reads goes on."""
    rows = {row["id"]: row for row in wire.list_jobs(client, ["state"])}
    survive.equal(sorted(set(known) - set(rows)), [], "acknowledged jobs that the listing lacks")
    survive.equal([rows[ident]["state"] for ident in running], [16] * len(running), "states of the running jobs")
    survive.equal(client.call("job-list.list-id", {"id": known[0], "attrs": ["urgency"]})["job"]["id"], known[0], "a job by id")
    looked_up = client.call("job-info.lookup", {"id": known[-1], "keys": ["eventlog", "jobspec"], "flags": 0})
    survive.check('"submit"' in looked_up["eventlog"], "the eventlog of an acknowledged job")
    journal = weir("journal", "--from=all", "--no-follow", "--json")
    survive.equal(journal.returncode, 0, f"status of weir journal: {journal.stderr}")
    submitted = {line["id"] for line in map(json.loads, journal.stdout.splitlines()) if line["entry"]["name"] == "submit"}
    survive.equal(sorted(set(known) - submitted), [], "acknowledged jobs that the journal lacks")
    survive.equal(weir("jobs", "--json").returncode, 0, "status of weir jobs")
    client.call("job-manager.stats-get")
    client.call("job-manager.queue-status", {})


def refused_at_the_command_line():
    said = weir("submit", "--urgency=hold", "true")
    survive.equal((said.returncode, said.stdout, len(said.stderr.splitlines())), (1, "", 1), f"weir submit on a full disk: {said.stderr}")
    survive.check(re.search("space|disk", said.stderr), f"weir submit does not say why: {said.stderr}")


def main(how):
    os.makedirs(STATE, exist_ok=True)
    mount("-o", f"size={SIZE},mode=700")
    os.environ["WEIR_URI"] = f"local://{STATE}/socket"
    supervisor = start()
    client = wire.Client()
    listener = tap.Tap().catch_up()
    running = [survive.submit(client, survive.BODY, "body", str(number), f"exit {number * 3}") for number in range(2)]
    expected = {ident: number * 3 << 8 for number, ident in enumerate(running)}
    listener.all_have("start", running)
    wire.until("the bodies began", lambda: all(survive.bodies()[ident] for ident in running))
    known = running + fill(client)
    print(f"{len(known)} jobs fill {SIZE}")
    reads(client, known, running)
    refused_at_the_command_line()
    # The bodies end while there is no space for their status.
    for number in range(2):
        with open(f"gate.{number}", "w", encoding="ascii"):
            pass
    for pids in survive.bodies().values():
        for pid in pids:
            daemons.gone(pid)
    newest = client.call("job-manager.stats-get")["seq"]
    if how == "stop":
        stop(supervisor)
        grow()
        supervisor = start()
    elif how == "kill":
        os.kill(daemons.of("weir-job-manager"), signal.SIGKILL)
        grow()
        for name in daemons.SERVICES:
            daemons.wait_for(name)
    else:
        grow()
    client = wire.Client()
    everything = tap.Tap({"from": "all"}).all_clean(running)
    survive.ended_well(client, expected)

    def taken():
        try:
            return submit(client, 0, urgency=0)
        except wire.Refused as refused:
            survive.equal(refused.errnum, ENOSPC, f"errno of a submit after space returned ({refused.text})")
            return None

    again = wire.until("submits are taken again", taken)
    known.append(again["id"])
    survive.check(again["seq"] > newest, f"seq {again['seq']} is not above {newest}, which was told")
    everything.complete_to(again["seq"])
    seqs = [event["seq"] for event in everything.events]
    survive.equal(len(seqs), len(set(seqs)), "seqs, each once")
    survive.once(running)
    present(client, known)
    survive.all_free(2)
    survive.compare_all()
    # And all of it after a restart, and after a kill.
    stop(supervisor)
    supervisor = start()
    present(wire.Client(), known)
    daemons.kill9("weir-job-manager")
    present(wire.Client(), known)
    survive.ended_well(wire.Client(), expected)
    survive.compare_all()
    stop(supervisor)


def present(client, known):
    for name in daemons.SERVICES:
        daemons.wait_for(name)
    rows = fold.of_listing(client).rows
    survive.equal(sorted(set(known) - set(rows)), [], "acknowledged jobs that are missing")


if __name__ == "__main__":
    if sys.argv[1] == "try":
        os.makedirs(STATE, exist_ok=True)
        mount("-o", f"size={SIZE}")
    else:
        main(sys.argv[1])
