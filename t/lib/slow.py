"""Slow readers, by SIGSTOP in the middle: a listing, and a journal. Others go on, memory stays bounded, the slow one loses nothing.

    slow.py fill JOBS        so many pending jobs, pipelined
    slow.py listing JOBS     a listing client is stopped after its first rows
    slow.py journal EVENTS   a listener is stopped, so many events happen
    slow.py ignore JOBS      a client that sends requests and never reads costs nobody else anything
    slow.py client FILE      what is stopped: lists all jobs into FILE, an id a line
    slow.py tap FILE         what is stopped: a journal into FILE, a seq a line
"""
import os
import signal
import subprocess
import sys
import time

import daemons
import survive
import tap
import wire

# What slow clients may cost each daemon. The mark of one client's queue is 1 MiB; the rest is the allocator's.
GROWTH_MAX = 8 << 20
OTHERS = 200


def fill(jobs):
    client = wire.Client()
    client.call("job-manager.queue-start", {"start": False, "all": True})
    payload = wire.submission(["true"], environment=survive.ENVIRONMENT)
    raw = wire.to_payload(payload)
    sent = done = 0
    began = time.monotonic()
    while done < jobs:
        while sent < jobs and sent - done < 2000:
            client.tag += 1
            client.send_frame(wire.frame(wire.REQUEST, "job-ingest.submit", raw, tag=client.tag))
            sent += 1
        done += 1
        client.answer(done + 1)
    survive.equal(client.call("job-list.job-stats", {})["job_states"]["sched"], jobs, "pending jobs")
    print(f"{jobs} jobs, {jobs / (time.monotonic() - began):.0f} a second")


def lines(file):
    with open(file, encoding="ascii") as text:
        return [int(line) for line in text if line.endswith("\n")]


def start(*words):
    return subprocess.Popen([sys.executable, __file__, *words])


def memory():
    return {name: daemons.rss(daemons.of(name)) for name in ("weir-job-manager", "weir-job-info")}


def check_memory(before, what, ids=0):
    """`ids`: how many ids job-info holds by design, for listings that are fixed when they are asked for."""
    for name, was in before.items():
        grown = memory()[name] - was
        print(f"{name} grew by {grown >> 10} KiB {what}")
        survive.check(grown <= GROWTH_MAX + (8 * ids if name == "weir-job-info" else 0), "that is too much")


def at_work(count):
    """Other clients, each its own connection: pages, changes, submissions; all are answered. The slowest answer, in seconds."""
    slowest = 0.0
    for number in range(count):
        client = wire.Client()
        began = time.monotonic()
        rows = wire.list_jobs(client, states=14, limit=25)
        survive.equal(len(rows), 25, "rows of a page")
        answer = client.call("job-ingest.submit", wire.submission(["true"], urgency=number % 3))
        survive.equal(client.call("job-list.list-id", {"id": answer["id"], "attrs": ["state"]})["job"]["state"], 8, "state of a new job")
        client.call("job-manager.raise", {"id": answer["id"], "severity": 0, "type": "cancel"})
        slowest = max(slowest, time.monotonic() - began)
        client.close()
    return slowest


def listing(jobs):
    due = [row["id"] for row in wire.list_jobs(wire.Client(), ["state"], states=14)]
    survive.equal(len(due), jobs, "jobs to list")
    alone = at_work(OTHERS)
    before = memory()
    slow = start("client", "rows")
    try:
        wire.until("the first rows", lambda: os.path.exists("rows") and len(lines("rows")) >= 100, pause=0.001)
        os.kill(slow.pid, signal.SIGSTOP)
        had = len(lines("rows"))
        survive.check(had < jobs, "the client had all rows before it was stopped: more jobs are needed")
        meanwhile = at_work(OTHERS)
        check_memory(before, "while a client was stopped in the middle of a listing")
        survive.equal(len(lines("rows")), had, "rows that a stopped client wrote")
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    survive.equal(slow.wait(wire.TIMEOUT), 0, "status of the slow client")
    got = lines("rows")
    survive.check(got == due, f"the slow client got {len(got)} rows, {len(set(got))} different ones, in {'the' if sorted(got) == sorted(due) else 'a'} "
                              f"wrong order; {jobs} were due")
    print(f"stopped at row {had} of {jobs}; slowest of {OTHERS} others {alone * 1000:.0f} ms alone, {meanwhile * 1000:.0f} ms meanwhile")


def journal(events):
    client = wire.Client()
    first = client.call("job-manager.stats-get")["seq"]
    before = memory()
    slow = start("tap", "seqs")
    quick = tap.Tap({"after": first})
    ids = [row["id"] for row in wire.list_jobs(client, ["state"], states=14, limit=events // 20)]
    try:
        wire.until("the slow listener is there", lambda: os.path.exists("seqs"))
        client.call("job-manager.priority", {"jobs": [[ids[0], 20]]})
        wire.until("its first events", lambda: len(lines("seqs")) >= 2)
        os.kill(slow.pid, signal.SIGSTOP)
        for number in range(10):
            answer = client.call("job-manager.priority", {"jobs": [[ident, 10 + number] for ident in ids]})
            quick.complete_to(answer["seq"])
        newest = answer["seq"]
        check_memory(before, "while a listener was stopped")
        at_work(20)
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    seqs = [event["seq"] for event in quick.events if event["seq"] <= newest]
    survive.equal(len(seqs), newest - first, "events that the quick listener got")
    survive.check(seqs == list(range(first + 1, newest + 1)), "the quick listener has a gap or a repeat")
    last = client.call("job-manager.stats-get")["seq"]
    wire.until("the slow listener has caught up", lambda: lines("seqs")[-1] >= last)
    slow.terminate()
    slow.wait(wire.TIMEOUT)
    got = lines("seqs")
    survive.check(got == list(range(got[0], got[0] + len(got))), "the slow listener has a gap or a repeat")
    print(f"{len(seqs)} events, the slow listener went on at {got[2]}")


def ignore(jobs):
    """Requests without end and nothing read: the broker stops reading that one; its queue is bounded."""
    before = memory()
    rude = wire.Client()
    request = wire.frame(
        wire.REQUEST, "job-list.list", wire.to_payload({"max_entries": 0, "attrs": ["all"], "since": 0.0}), wire.F_STREAMING, tag=1
    )
    tag = sent = 0
    rude.sock.setblocking(False)
    try:
        while sent < 200:
            tag += 1
            rude.sock.sendall(request[:-4] + tag.to_bytes(4, "big"))
            sent += 1
    except (BlockingIOError, BrokenPipeError, ConnectionResetError):
        pass
    at_work(OTHERS // 4)
    check_memory(before, f"with {sent} unread listings of {jobs} jobs", sent * jobs)
    rude.close()
    at_work(10)
    wire.until("its streams are gone", lambda: wire.Client().call("job-list.stats-get")["streams"] == 0)
    print(f"{sent} listings asked for and never read")


def client_program(file):
    client = wire.Client()
    with open(file, "w", encoding="ascii", buffering=1) as out:
        ask = {"max_entries": 0, "attrs": ["all"], "since": 0.0, "constraint": {"states": [14]}}
        for answer in client.stream("job-list.list", ask):
            for row in answer["jobs"]:
                out.write(f"{row['id']}\n")


def tap_program(file):
    listener = tap.Tap().catch_up()
    with open(file, "w", encoding="ascii", buffering=1) as out:
        while True:
            for event in listener.next(3600)["events"]:
                out.write(f"{event['seq']}\n")


if __name__ == "__main__":
    {"fill": lambda n: fill(int(n)), "listing": lambda n: listing(int(n)), "journal": lambda n: journal(int(n)),
     "ignore": lambda n: ignore(int(n)), "client": client_program, "tap": tap_program}[sys.argv[1]](sys.argv[2])
