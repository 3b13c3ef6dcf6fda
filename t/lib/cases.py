"""Cases from real bug reports that need more than a shell: each function is one, named by its number; t60xx says what is right."""
import json
import os
import socket
import subprocess
import sys
import threading
import time

import daemons
import engine
import fold
import relay
import standin
import survive
import tap
import wire


def weir(*words, check=True, **more):
    return subprocess.run(
        [os.path.join(daemons.BIN, "weir"), *words], check=check, capture_output=True, text=True, encoding="utf-8", timeout=wire.TIMEOUT, **more
    )


def a03():
    """Look-ups by id are never early: while the journal is held back they wait, and then answer."""
    with daemons.Hand("state") as hand:
        hand.manager()
        between = relay.Relay("relay.socket", hand.uri)
        hand.info(uri=between.uri)
        hand.runner("--cores=0-1")
        client = wire.Client()
        between.hold("down")
        ident = client.call("job-ingest.submit", wire.submission(["true"], urgency=0))["id"]
        waiting = client.send("job-list.list-id", {"id": ident, "attrs": ["state", "urgency"]})
        try:
            early = client.response(waiting, 0.5)
            survive.check(False, f"an answer without the journal: {early}")
        except TimeoutError:
            pass
        # On job-info's own socket nothing holds the request back but job-info itself.
        side = wire.Client(f"local://{hand.directory}/job-info.socket")
        asked = side.send("job-list.list-id", {"id": ident, "attrs": ["state"]})
        try:
            early = side.response(asked, 0.5)
            survive.check(False, f"an answer without the journal, on job-info's own socket: {early}")
        except TimeoutError:
            pass
        between.release("down")
        job = client.answer(waiting)["job"]
        survive.equal((job["id"], job["state"], job["urgency"]), (ident, 8, 0), "the job, once the journal flows")
        survive.equal(side.answer(asked)["job"], {"id": ident, "state": 8}, "the same on job-info's own socket")

        began = time.monotonic()
        ident = client.call("job-ingest.submit", wire.submission(["sleep", "1"], environment=survive.ENVIRONMENT))["id"]
        job = client.call("job-list.list-id", {"id": ident, "attrs": ["state", "result"], "state": 64})["job"]
        survive.equal((job["state"], job["result"]), (64, 1), "state and result when asked to wait until inactive")
        took = time.monotonic() - began
        survive.check(took >= 1.0, f"it came back after {took:.2f} s, the job sleeps for 1")

        try:
            client.call("job-list.list-id", {"id": ident + (1 << 34), "attrs": []}, timeout=1)
            survive.check(False, "an id never given out is known")
        except wire.Refused as refused:
            survive.equal(refused.errnum, wire.ENOENT, "errno of an id never given out")
        between.close()


class Asker(threading.Thread):
    """Asks job-info itself for all jobs every 200 ms, until told to stop: what each answer says, and when it came."""

    def __init__(self, uri):
        super().__init__(daemon=True)
        self.client = wire.Client(uri)
        self.enough = threading.Event()
        self.answers = []
        self.failed = None

    def run(self):
        try:
            while True:
                answer = self.client.call("job-list.list", {"max_entries": 0, "attrs": []}, timeout=5)
                self.answers.append((time.monotonic(), [job["id"] for job in answer["jobs"]], answer.get("stale")))
                if self.enough.wait(0.2):
                    return
        except (wire.Refused, wire.Lost, OSError, TimeoutError) as failed:
            self.failed = failed

    def stop(self):
        self.enough.set()
        self.join(wire.TIMEOUT)
        survive.equal(self.failed, None, "what went wrong with a list")


# A04: job-info tries to connect once a second, a fifth more or less.
TIMER, SPREAD = 1.0, 0.2


def a04():
    """The job-manager is away for three seconds: job-info stays up, says how old its list is, and knocks at its timer's pace."""
    with daemons.Hand("state") as hand:
        hand.manager()
        info = hand.info()
        hand.runner("--cores=0-1")
        client = wire.Client()
        listener = tap.Tap().catch_up()
        done = [client.call("job-ingest.submit", wire.submission(["true"], environment=survive.ENVIRONMENT))["id"] for _ in range(20)]
        listener.all_clean(done)
        for _ in range(5):
            client.call("job-ingest.submit", wire.submission(["true"], urgency=0))
        due = sorted(fold.of_listing(client).rows)
        survive.equal(len(due), 25, "jobs before")
        side = wire.Client(f"local://{hand.directory}/job-info.socket")
        asker = Asker(f"local://{hand.directory}/job-info.socket")
        asker.start()
        wire.until("a list before", lambda: asker.answers)
        connects = side.call("job-list.stats-get")["connects"]
        hand.kill("weir-job-manager")
        gone = time.monotonic()
        wire.until("three seconds to pass", lambda: time.monotonic() >= gone + 3.0)
        attempts = side.call("job-list.stats-get")["connects"] - connects
        away = time.monotonic() - gone
        # As a user sees it.
        shown = json.loads(weir("jobs", "-a", "--json").stdout)
        survive.equal((len(shown["jobs"]), shown["stale"] is not None), (25, True), "rows and mark of weir jobs while it is away")
        hand.manager()
        back = time.monotonic()
        wire.until("a list that is current", lambda: asker.answers[-1][0] > back and asker.answers[-1][2] is None)
        current = asker.answers[-1][0]
        asker.stop()
        survive.equal(info.poll(), None, "whether job-info ended")

        survive.check(current - back <= TIMER * (1 + SPREAD) + 1.0, f"current again {current - back:.2f} s after the return")
        for when, jobs, stale in asker.answers:
            survive.equal(sorted(jobs), due, f"the jobs {when - gone:.2f} s after the end, none twice")
        ages = [(when, stale) for when, _, stale in asker.answers if gone + 0.1 < when < back]
        survive.check(len(ages) >= 12, f"only {len(ages)} answers while it was away")
        survive.check(all(stale is not None for _, stale in ages), "a list without a job-manager is not marked stale")
        for when, stale in ages:
            survive.check(abs(stale - (when - gone)) < 0.5, f"stale says {stale:.2f} s, {when - gone:.2f} s after the end")
        least, most = int(away / (TIMER * (1 + SPREAD))) - 1, int(away / (TIMER * (1 - SPREAD))) + 1
        survive.check(max(1, least) <= attempts <= most, f"{attempts} attempts to connect within {away:.1f} s: the timer does not pace them")
        survive.equal(sorted(fold.of_listing(wire.Client()).rows), due, "jobs after the return")
        survive.equal(json.loads(weir("jobs", "-a", "--json").stdout)["stale"], None, "stale after the return")
        print(f"{len(asker.answers)} lists, {len(ages)} while away, {attempts} attempts to connect")


def a05():
    """A recorded stream with one entry twice: as if it had come once."""
    epoch, ident = "0123456789abcdef", 4711 << 24
    spec = wire.jobspec(["true"])
    del spec["attributes"]["system"]["environment"]
    names = [
        ("submit", {"userid": os.getuid(), "urgency": 16, "flags": 0, "version": 1}), ("validate", None), ("depend", None),
        ("priority", {"priority": 16}), ("alloc", None), ("start", None),
    ]
    events = []
    for number, (name, context) in enumerate(names, 1):
        entry = {"timestamp": 1000.0 + number, "name": name}
        if context:
            entry["context"] = context
        event = {"seq": number, "id": ident, "eventlog_seq": number, "entry": entry}
        event.update({"jobspec": spec} if name == "submit" else {"R": engine.make_r()} if name == "alloc" else {})
        events.append(event)
    events[4]["R"]["execution"]["starttime"] = 1005.0

    def backlog(*some):
        return {"epoch": epoch, "backlog": True, "events": list(some)}

    def live(*some):
        return {"epoch": epoch, "seq": some[-1]["seq"], "events": list(some)}

    def caught_up(seq):
        return {"epoch": epoch, "seq": seq, "caught_up": True, "events": []}

    one, two, three, four, five, six = events
    plays = {
        "once": [caught_up(0), live(one, two, three), live(four), live(five, six)],
        "twice in one batch": [caught_up(0), live(one, two, three), live(four, four), live(five, six)],
        "twice in two batches": [caught_up(0), live(one, two, three), live(four), live(four, five), live(six)],
        "twice, over the end of the backlog": [backlog(one, two, three, four), caught_up(4), live(four, five), live(six)],
        "twice in the backlog": [backlog(one, two, three, four, four), caught_up(4), live(five, six)],
    }
    seen = {}
    os.makedirs("state", mode=0o700, exist_ok=True)
    with open("state/key", "w", encoding="ascii") as key:
        key.write("0" * 64 + "\n")
    for name, batches in plays.items():
        with daemons.Hand("state") as hand:
            broker = standin.Broker("broker.socket")
            hand.start("weir-job-info", "--uri", broker.uri, key="info")
            broker.accept()
            for batch in batches:
                broker.play(batch)
            rows = [row for answer in broker.ask("job-list.list", {"max_entries": 0, "attrs": ["all"], "since": 0.0}, True) for row in answer["jobs"]]
            stats = broker.ask("job-list.job-stats")[0]
            counters = broker.ask("job-list.stats-get")[0]["journal"]
            log = [line for line in hand.log("info").splitlines() if "WARN" in line or "ERROR" in line]
            broker.close()
            os.unlink("broker.socket")
            os.unlink("state/info.log")
        stats.pop("seq", None)
        seen[name] = (rows, stats)
        survive.equal((counters["invalid"], counters["gaps"], counters["unknown"]), (0, 0, 0), f"{name}: invalid, gaps, unknown")
        survive.equal(counters["duplicates"], 0 if name == "once" else 1, f"{name}: duplicates")
        survive.check(len(log) <= (0 if name == "once" else 1), f"{name}: {len(log)} lines in the log: {log}")
        survive.equal(len(rows), 1, f"{name}: rows")
        survive.equal((rows[0]["state"], rows[0]["priority"], rows[0]["t_run"]), (16, 16, 1005.0), f"{name}: state, priority, t_run")
        survive.equal(seen[name], seen["once"], f"{name}: rows and counts")
    print(f"{len(plays)} plays")


def a06():
    """Counts while a job times out: never negative, in the end one timeout and nothing else; followed, and asked for all the time."""
    client, other = wire.Client(), wire.Client()
    tag = client.send("job-list.job-stats", {}, streaming=True)
    payload = wire.submission(["sleep", "10"], duration=1.0, environment=survive.ENVIRONMENT)
    client.call("job-ingest.submit", payload)
    deadline = time.monotonic() + wire.TIMEOUT
    for name, ask in (("asked for", lambda: other.call("job-list.job-stats", {})), ("followed", lambda: client.answer(tag))):
        seen = 0
        while True:
            survive.check(time.monotonic() < deadline, "the job does not end")
            stats = ask()
            seen += 1
            states, parts = stats["job_states"], [stats[key] for key in ("successful", "failed", "canceled", "timeout")]
            survive.check(min([*states.values(), *parts]) >= 0, f"{name}: a negative count: {stats}")
            survive.equal(sum(parts), states["inactive"], f"{name}: sum of the results")
            survive.equal(sum(value for key, value in states.items() if key != "total"), states["total"], f"{name}: sum of the states")
            survive.check(stats["failed"] == 0 and stats["successful"] == 0 and stats["canceled"] == 0, f"{name}: counted elsewhere: {stats}")
            if states["inactive"]:
                survive.equal(parts, [0, 0, 0, 1], f"{name}: completed, failed, canceled, timeout")
                print(f"{name}: {seen} answers")
                break
    counts = fold.of_listing(other).rows
    survive.equal([row["result"] for row in counts.values()], [8], "results in the listing")


def a10():
    """A cursor is after the last event seen: silence, then N+1; and "now" is now."""
    client = wire.Client()
    client.call("job-ingest.submit", wire.submission(["true"], urgency=0))
    first = tap.Tap({"from": "all"}).catch_up()
    cursor, epoch = first.seq, first.epoch
    first.close()
    resumed = tap.Tap({"after": cursor, "epoch": epoch}).catch_up()
    # Its filter lets through the newest event that is held: the `priority` of the job above.
    fresh = tap.Tap({"from": "now", "allow": ["submit", "priority"]}).catch_up()
    program = subprocess.Popen(
        [os.path.join(daemons.BIN, "weir"), "journal", f"--after={cursor}", f"--epoch={epoch}", "--json", "--count=4"],
        stdout=subprocess.PIPE, text=True, encoding="utf-8",
    )
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        for one, what in ((resumed, "the resumed"), (fresh, "the fresh")):
            try:
                batch = one.next(max(0.0, (until - time.monotonic()) / 2))
                survive.equal(batch["events"], [], f"events on {what} stream though nothing happened")
            except TimeoutError:
                pass
    ident = client.call("job-ingest.submit", wire.submission(["true"], urgency=0))["id"]
    resumed.complete_to(cursor + 4)
    survive.equal([event["seq"] for event in resumed.events], list(range(cursor + 1, cursor + 5)), "seqs after the cursor")
    fresh.complete_to(cursor + 4)
    survive.equal([(event["seq"], event["id"]) for event in fresh.events], [(cursor + 1, ident), (cursor + 4, ident)], "what the fresh one got")
    out, _ = program.communicate(timeout=wire.TIMEOUT)
    survive.equal([json.loads(line)["seq"] for line in out.splitlines()], list(range(cursor + 1, cursor + 5)), "seqs of weir journal")


def a11():
    """Cursors that have aged out of a ring of 100, that are ahead, and that belong to another store."""
    with daemons.Hand("state") as hand:
        hand.manager("--journal-size-limit=100")
        info = hand.info()
        client = wire.Client()
        first = client.call("job-ingest.submit", wire.submission(["true"], urgency=0))
        epoch = tap.Tap().next()["epoch"]
        # One more event at a time: a complaint that is not fatal.
        while client.call("job-manager.stats-get")["seq"] < 305:
            client.call("job-manager.raise", {"id": first["id"], "severity": 3, "type": "x"})
        stats = client.call("job-manager.stats-get")
        survive.equal((stats["seq"], stats["journal"]["ring_entries"]), (305, 100), "newest seq, entries in the ring")
        for after in (5, 204, 205, 305, 0):
            one = tap.Tap({"after": after, "epoch": epoch}).complete_to(305)
            survive.equal([event["seq"] for event in one.events], list(range(after + 1, 306)), f"seqs after {after}")
            one.close()
        still = tap.Tap({"after": 305, "epoch": epoch}).catch_up()
        try:
            survive.check(False, f"something after the newest: {still.next(0.3)}")
        except TimeoutError:
            pass
        for cursor in ({"after": 400, "epoch": epoch}, {"after": 300, "epoch": "f" * 16}):
            try:
                tap.Tap(cursor).next()
                survive.check(False, f"cursor {cursor} was accepted")
            except wire.Refused as refused:
                survive.equal(refused.errnum, wire.ESTALE, f"errno for {cursor}")
                survive.check("305" in refused.text and " 1 " in refused.text, f"the text names no ends: {refused.text}")
        refused = weir("journal", "--after=400", check=False)
        survive.equal((refused.returncode, len(refused.stderr.splitlines())), (1, 1), "status and lines of weir journal --after=400")
        survive.check("305" in refused.stderr, f"weir journal does not say where it ends: {refused.stderr}")
        client.call("job-manager.raise", {"id": first["id"], "severity": 3, "type": "x"})
        still.complete_to(306)
        survive.equal([event["seq"] for event in still.events], [306], "what came to the stream that was left open")

        # Our own client meets another store under the same socket: one full reload, then live.
        before = client.call("job-list.stats-get")
        hand.kill("weir-job-manager")
        os.rename("state/store.sqlite", "old.sqlite")
        os.rename("state/key", "old.key")
        for name in ("-wal", "-shm"):
            if os.path.exists("state/store.sqlite" + name):
                os.rename("state/store.sqlite" + name, "old.sqlite" + name)
        hand.manager("--journal-size-limit=100")
        client = wire.Client()
        ident = client.call("job-ingest.submit", wire.submission(["true"], urgency=7))["id"]
        wire.until("job-info follows the new store", lambda: daemons.answers("weir-job-info"))
        after = client.call("job-list.stats-get")
        survive.equal([(row["id"], row["urgency"]) for row in wire.list_jobs(client, ["urgency"])], [(ident, 7)], "rows of the new store")
        survive.equal(after["journal"]["rebuilds"] - before["journal"]["rebuilds"], 1, "full reloads")
        survive.check(after["connects"] - before["connects"] <= 3, f"{after['connects'] - before['connects']} connections")
        survive.equal(info.poll(), None, "whether job-info ended")


def a16():
    """200 clients that leave before their answer, 20 of them in the middle of it."""
    client = wire.Client()
    pids = {name: daemons.of(name) for name in daemons.SERVICES}
    ids = [survive.submit(client, "sleep 0.02; exit 0") for _ in range(30)]
    held = wire.submission(["true"], urgency=0)
    tags = [client.send("job-ingest.submit", held) for _ in range(2000)]
    for tag in tags:
        client.answer(tag)
    files = {name: daemons.open_files(pid) for name, pid in pids.items() if name != "weir-job-runner"}
    ask = wire.to_payload({"max_entries": 0, "attrs": ["all"], "since": 0.0})
    for number in range(200):
        one = socket.socket(socket.AF_UNIX)
        one.connect(client.path)
        one.sendall(wire.frame(wire.REQUEST, "job-list.list", ask, wire.F_STREAMING, tag=1))
        if number % 10 == 0:
            got = 0
            while got < 100_000:
                got += len(one.recv(65536))
        one.close()
    tap.Tap({"from": "all", "allow": ["clean"]}).all_clean(ids)
    survive.ended_well(client, {ident: 0 for ident in ids})
    for name, pid in pids.items():
        survive.equal(daemons.of(name), pid, f"pid of {name}")
    for name, count in files.items():
        wire.until(f"open files of {name} are {count} again", lambda: daemons.open_files(pids[name]) <= count, 2.0)
    wire.until("no stream is left", lambda: client.call("job-list.stats-get")["streams"] == 0, 2.0)
    clients = client.call("job-manager.stats-get")["router"]["clients"]
    survive.check(clients <= 5, f"{clients} clients are still counted")


def counts():
    """The counts in every view, as one line: job-stats, weir stats, weir jobs."""
    client = wire.Client()
    stats = client.call("job-list.job-stats", {})
    print(*(f"{key} {stats[key]}" for key in ("successful", "failed", "canceled", "timeout")), "inactive", stats["job_states"]["inactive"])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
