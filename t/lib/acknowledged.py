"""Invariant 2 over a kill of the job-manager: durable, then visible.

    acknowledged.py ROUNDS    submissions and changes in full flight, kill -9, and all that was answered is there
    acknowledged.py resume    `weir journal` follows over the kill, and its events have no repeat and no hole
"""
import json
import os
import signal
import subprocess
import sys
import threading

import daemons
import fold
import survive
import wire

IN_FLIGHT = 64


def flood(told, urgencies, stop_at):
    """Submits held jobs and changes them, pipelined, until the connection goes; notes only what was answered."""
    client = wire.Client()
    open_tags = []
    try:
        while True:
            tag = client.send("job-ingest.submit", wire.submission(["true"], urgency=0, cwd="/"))
            open_tags.append((tag, None))
            if told and len(told) % 3 == 0:
                ident = told[-1]
                urgency = 1 + len(told) % 14
                # Held, then raised: the job-manager may start what is not held; nothing here is to run.
                open_tags.append((client.send("job-manager.priority", {"jobs": [[ident, urgency], [ident, 0]]}), ident))
            while len(open_tags) >= IN_FLIGHT:
                tag, ident = open_tags.pop(0)
                answer = client.answer(tag)
                if ident is None:
                    told.append(answer["id"])
                else:
                    urgencies[ident] = max(urgencies.get(ident, 0), answer["seq"])
                if len(told) == stop_at:
                    half.set()
    except (wire.Lost, wire.Refused):
        half.set()


half = threading.Event()


def kill(rounds):
    known = []
    for number in range(rounds):
        half.clear()
        told, changed = [], {}
        thread = threading.Thread(target=flood, args=(told, changed, 150 * (number + 1)), daemon=True)
        thread.start()
        half.wait(wire.TIMEOUT)
        daemons.kill9("weir-job-manager")
        thread.join(wire.TIMEOUT)
        known += told
        survive.check(len(told) >= 150 * (number + 1), f"only {len(told)} were answered before the kill")
        for name in daemons.SERVICES:
            daemons.wait_for(name)
        client = wire.Client()
        listing = fold.of_listing(client)
        missing = [ident for ident in known if ident not in listing.rows]
        survive.equal(missing, [], "acknowledged jobs that are missing")
        survive.equal([row["id"] for row in listing.order() if row["state"] == 8], sorted(listing_ids(listing)), "order of the held")
        newest = client.call("job-manager.stats-get")["seq"]
        told_seq = max(changed.values(), default=0)
        survive.check(newest >= told_seq, f"the newest seq is {newest}, {told_seq} had been told")
        nxt = client.call("job-ingest.submit", wire.submission(["true"], urgency=0))
        survive.equal(nxt["seq"], newest + 4, "seq of the next job's last event")
        survive.check(nxt["id"] > max(known), f"id {nxt['id']} is not above all that were given")
        known.append(nxt["id"])
        survive.compare_all()
        client.close()
        print(f"{len(told)} acknowledged in round {number + 1}")
    client = wire.Client()
    client.call("job-manager.raiseall", {"dry_run": False, "userid": 0xFFFFFFFF, "states": 14, "severity": 0, "type": "cancel"})
    survive.compare_all()


def listing_ids(listing):
    return [ident for ident, row in listing.rows.items() if row["state"] == 8]


def resume():
    client = wire.Client()
    first = client.call("job-manager.stats-get")["seq"]
    process = subprocess.Popen(
        [os.path.join(daemons.BIN, "weir"), "journal", f"--after={first}", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )
    seqs, newest = [], first
    for _ in range(3):
        newest = max(client.call("job-ingest.submit", wire.submission(["true"], urgency=0))["seq"] for _ in range(20))
        while not seqs or seqs[-1] < newest:
            seqs.append(json.loads(process.stdout.readline())["seq"])
        client.close()
        daemons.kill9("weir-job-manager")
        client = wire.Client()
    newest = client.call("job-ingest.submit", wire.submission(["true"], urgency=0))["seq"]
    while seqs[-1] < newest:
        seqs.append(json.loads(process.stdout.readline())["seq"])
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=wire.TIMEOUT)
    survive.equal(seqs, list(range(first + 1, newest + 1)), "seqs that the journal printed")
    survive.check("journal" in said, f"no note on standard error: {said!r}")


if __name__ == "__main__":
    if sys.argv[1] == "resume":
        resume()
    else:
        kill(int(sys.argv[1]))
