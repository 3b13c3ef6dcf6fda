"""Clients that do not behave, and what the others see of it.

    isolation.py append CLIENTS LINES      so many clients write so many long lines each into the log: prints how many were taken, how many refused
    isolation.py dropped LOGDIR COUNT      waits until the job-manager's logs say that COUNT lines were dropped
    isolation.py connections COUNT         so many clients that come and go at once
    isolation.py a12 EVENTS                two taps, one stopped while so many events happen
    isolation.py crowd LISTENERS LISTINGS  so many of each that are not read, and job-info stopped
    isolation.py flood TOPIC REQUEST       one client with thousands of requests under way, another one beside it
    isolation.py pour TOPIC REQUEST        that one client, until its standard input ends
    isolation.py a16 CLIENTS MIDWAY        clients that leave at once, some of them while they read
"""
import glob
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import daemons
import survive
import wire

# What 40 that are stopped may cost the job-manager: a queue of 1 MiB each, a batch that was under way, and what the allocator keeps.
GROWTH_MAX = 80 << 20
# Seconds that nothing of these may take; on a quiet machine it is milliseconds.
SOON = 5.0


def append(clients, lines):
    line = b"x" * 3000
    all_of_them = [wire.Client() for _ in range(clients)]
    accepted = refused = 0
    for client in all_of_them:
        for tag in range(1, lines + 1):
            client.send_frame(wire.frame(wire.REQUEST, "log.append", line, tag=tag))
    for client in all_of_them:
        for tag in range(1, lines + 1):
            errnum = client.response(tag).aux
            accepted += errnum == 0
            refused += errnum == wire.EAGAIN
    print(accepted, refused)


def dropped(directory, count):
    def told():
        found = 0
        for name in glob.glob(os.path.join(directory, "job-manager.log*")):
            with open(name, encoding="utf-8", errors="replace") as file:
                found += sum(int(lines) for lines in re.findall(r"lines of clients were dropped.* lines=(\d+)", file.read()))
        return found >= count

    wire.until(f"{count} lines are told to be dropped", told)


def connections(count):
    for _ in range(count):
        wire.Client().close()


def journal_to(file, *words):
    """`weir journal --json` into a file: what a tap is."""
    with open(file, "wb") as out:
        return subprocess.Popen([os.path.join(daemons.BIN, "weir"), "journal", "--json", *words], stdout=out)


def seqs(file):
    with open(file, encoding="utf-8") as text:
        return [json.loads(line)["seq"] for line in text if line.endswith("\n")]


def last_seq(file):
    """The newest whole line's."""
    with open(file, "rb") as text:
        text.seek(max(0, os.path.getsize(file) - 65536))
        whole = [line for line in text.read().split(b"\n")[:-1] if line.startswith(b"{")]
    return json.loads(whole[-1])["seq"] if whole else 0


def a12(events):
    client = wire.Client()
    ids = [row["id"] for row in wire.list_jobs(client, ["state"], states=14, limit=100)]
    first = client.call("job-manager.stats-get")["seq"]
    taps = {name: journal_to(name, f"--after={first}") for name in ("stopped", "other")}
    try:
        newest = client.call("job-manager.priority", {"jobs": [[ids[0], 1]]})["seq"]
        for name in taps:
            wire.until(f"tap {name} is there", lambda name=name: last_seq(name) >= newest)
        os.kill(taps["stopped"].pid, signal.SIGSTOP)
        worst = 0.0
        while newest < first + events:
            urgency = 1 + (newest // 10) % 14
            newest = client.call("job-manager.priority", {"jobs": [[ident, urgency] for ident in ids]})["seq"]
            told = time.monotonic()
            wire.until("the other tap has it", lambda: last_seq("other") >= newest, pause=0.002)
            worst = max(worst, time.monotonic() - told)
        survive.check(worst < 1.0, f"the other tap was {worst:.2f} s behind")
        os.kill(taps["stopped"].pid, signal.SIGCONT)
        wire.until("the tap that was stopped has everything", lambda: last_seq("stopped") >= newest)
    finally:
        for tap in taps.values():
            os.kill(tap.pid, signal.SIGCONT)
            tap.terminate()
            tap.wait(wire.TIMEOUT)
    for name in taps:
        got = [seq for seq in seqs(name) if seq <= newest]
        survive.check(got == list(range(first + 1, newest + 1)), f"tap {name}: a gap, a repeat or a wrong order among {len(got)}")
    print(f"{newest - first} events; the other tap was {worst * 1000:.0f} ms behind at worst")


def deaf(topic, request):
    """A client that asks for a stream and reads nothing."""
    client = wire.Client()
    client.send(topic, request, streaming=True)
    return client


def crowd(listeners, listings):
    client = wire.Client()
    manager, info = daemons.of("weir-job-manager"), daemons.of("weir-job-info")
    before = daemons.rss(manager)
    everything = {"max_entries": 0, "attrs": ["all"], "since": 0.0}
    crowd = [deaf("job-manager.events", {"from": "all"}) for _ in range(listeners)]
    crowd += [deaf("job-list.list", everything) for _ in range(listings)]
    quick = wire.Client()
    tag = quick.send("job-manager.events", {"from": "now"}, streaming=True)
    quick.answer(tag)
    ids = [row["id"] for row in wire.list_jobs(client, ["state"], states=14, limit=200)]
    os.kill(info, signal.SIGSTOP)
    slowest = 0.0
    try:
        for number in range(100):
            began = time.monotonic()
            submitted = client.call("job-ingest.submit", wire.submission(["true"], urgency=number % 3))
            changed = client.call("job-manager.priority", {"jobs": [[ident, 1 + number % 14] for ident in ids]})
            seq = 0
            while seq < changed["seq"]:
                seq = quick.answer(tag).get("seq", seq)
            slowest = max(slowest, time.monotonic() - began)
        asked = [client.send("job-list.list-id", {"id": submitted["id"], "attrs": ["state"]}) for _ in range(50)]
        client.call("job-manager.ping", {"seq": 1})
        grown = daemons.rss(manager) - before
    finally:
        os.kill(info, signal.SIGCONT)
    survive.check(slowest < SOON, f"a submit, a change and its events took {slowest:.2f} s")
    survive.check(grown < GROWTH_MAX, f"the job-manager grew by {grown >> 10} KiB")
    for one in asked:
        survive.equal(client.answer(one)["job"]["id"], submitted["id"], "what job-info is asked while it is stopped, when it goes on")
    rows = len(wire.list_jobs(client, ["state"], states=14))
    for one in crowd[listeners : listeners + 3]:
        got = 0
        try:
            while True:
                got += len(one.answer(1)["jobs"])
        except wire.Refused as end:
            survive.equal(end.errnum, wire.ENODATA, "the end of a listing that was stopped")
        survive.check(0 < rows - got <= 101, f"a listing that was stopped has {got} of {rows} rows")
    for one in crowd[:3]:
        due = 1
        while due <= changed["seq"]:
            for event in one.answer(1)["events"]:
                survive.equal(event["seq"], due, "the next seq of a listener that was stopped")
                due += 1
    for one in crowd:
        one.close()
    print(f"slowest of 100: {slowest * 1000:.0f} ms; the job-manager grew by {grown >> 10} KiB")


def flood(topic, request):
    """The flood is a process that sends as much as it can and reads its answers; another client asks now and then."""
    rude = subprocess.Popen([sys.executable, __file__, "pour", topic, request], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        survive.equal(rude.stdout.readline(), "ready\n", "what the flood says once it is answered")
        client, slowest = wire.Client(), 0.0
        for _ in range(30):
            began = time.monotonic()
            client.call("job-list.list", {"max_entries": 25, "attrs": ["state"], "since": 0.0})
            client.call("job-manager.getinfo", {})
            client.call("job-ingest.submit", wire.submission(["true"], urgency=0))
            slowest = max(slowest, time.monotonic() - began)
    finally:
        rude.stdin.close()
        counts = json.loads(rude.stdout.read() or "{}")
        rude.wait(wire.TIMEOUT)
    survive.check(counts["sent"] >= 2000, f"that was no flood: {counts}")
    survive.check(slowest < SOON, f"another client waited {slowest:.2f} s: {counts}")
    print(f"slowest of 30: {slowest * 1000:.0f} ms beside {counts}")


def pour(topic, request):
    """Up to 20,000 requests under way until standard input ends; then says what became of them."""
    client = wire.Client()
    frame = wire.frame(wire.REQUEST, topic, wire.to_payload(json.loads(request)), tag=1)[:-4]
    counts = {"sent": 0, "answered": 0, "refused": 0}
    out, buffer = b"", bytearray()
    client.sock.setblocking(False)
    while not select.select([sys.stdin], [], [], 0)[0]:
        under_way = counts["sent"] - counts["answered"] - counts["refused"]
        if not out and under_way < 20000:
            first = counts["sent"] + 1
            out = b"".join(frame + (tag % 0x7FFFFFFF).to_bytes(4, "big") for tag in range(first, first + 200))
            counts["sent"] += 200
        readable, writable, _ = select.select([client.sock], [client.sock] if out else [], [], 1)
        if writable:
            out = out[client.sock.send(out) :]
        if not readable:
            continue
        buffer += client.sock.recv(1 << 20)
        at = 0
        while len(buffer) >= at + 8:
            size = int.from_bytes(buffer[at + 4 : at + 8], "big")
            if len(buffer) < at + 8 + size:
                break
            at += 8 + size
            refused = int.from_bytes(buffer[at - 8 : at - 4], "big") == wire.EAGAIN
            counts["refused" if refused else "answered"] += 1
            if counts["answered"] + counts["refused"] == 1:
                print("ready", flush=True)
        del buffer[:at]
    print(json.dumps(counts), flush=True)


def a16(count, midway):
    names = ("weir-job-manager", "weir-job-info")
    client = wire.Client()
    # Whatever the daemons open when first asked is open: the store's files, by each of the threads that read them.
    ident = client.call("job-ingest.submit", wire.submission(["true"], environment=survive.ENVIRONMENT))["id"]
    client.call("job-list.list-id", {"id": ident, "attrs": ["state"], "state": 64})
    client.call("job-manager.lookup", {"id": ident, "keys": ["J", "eventlog"]})
    for answer in client.stream("job-manager.events", {"from": "active", "ids": [ident]}):
        if answer.get("caught_up"):
            break
    pids = {name: daemons.of(name) for name in names}
    before = {name: daemons.open_files(pid) for name, pid in pids.items()}
    told = []
    for number in range(count):
        one = wire.Client()
        one.send("job-list.list", {"max_entries": 0, "attrs": ["all"], "since": 0.0}, streaming=number % 2 == 0)
        if number % (count // midway) == 0:
            one.fill()
        one.close()
        if number % 10 == 0:
            told.append(client.call("job-ingest.submit", wire.submission(["true"], environment=survive.ENVIRONMENT))["id"])
    ended = time.monotonic()
    wire.until("descriptors are as before", lambda: all(daemons.open_files(pids[name]) <= before[name] for name in names), timeout=10)
    took = time.monotonic() - ended
    survive.check(took <= 2.0, f"descriptors were as before after {took:.1f} s")
    for ident in told:
        job = client.call("job-list.list-id", {"id": ident, "attrs": ["state", "result"], "state": 64})["job"]
        survive.equal(job["result"], 1, f"result of job {ident}")
    survive.equal({name: daemons.of(name) for name in names}, pids, "pids")
    print(f"{count} clients left; {len(told)} jobs completed; descriptors {before} again after {took:.2f} s")


if __name__ == "__main__":
    what, words = sys.argv[1], sys.argv[2:]
    numbers = {"append": append, "connections": connections, "a12": a12, "crowd": crowd, "a16": a16}
    if what in numbers:
        numbers[what](*map(int, words))
    elif what == "dropped":
        dropped(words[0], int(words[1]))
    elif what == "pour":
        pour(*words)
    else:
        flood(*words)
