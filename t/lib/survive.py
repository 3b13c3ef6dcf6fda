"""kill -9 of daemons while jobs run and wait, and what must be as before.

    world = World(CORES)     on the instance at $WEIR_URI: `cores` running jobs, a queue of waiting ones, two that ended
    before = world.look()
    daemons.kill9(…)
    world.same(before)       nothing missing, nothing new, order and pids as they were, not one event posted
    world.end()              all end as they should; each body began exactly once; nothing is held

A body appends "ID PID" to `ran` with one write and then waits for its gate, a file `gate.N`; so that a test decides when it ends.
As a program: survive.py DAEMON… kills each of these in turn and looks after each.
"""
import collections
import json
import os
import subprocess
import sys

import daemons
import fold
import tap
import wire

CORES = int(os.environ.get("WEIR_TEST_CORES", "2"))
BODY = 'echo "$WEIR_JOB_ID $$" >>ran; until [ -e "gate.$1" ]; do sleep 0.02; done; eval "$2"'
QUICK = 'echo "$WEIR_JOB_ID $$" >>ran; sleep 0.$1; exit $2'
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def submit(client, *words, urgency=16, **more):
    payload = wire.submission(["sh", "-c", *words], urgency=urgency, cwd=os.getcwd(), environment=ENVIRONMENT, **more)
    return client.call("job-ingest.submit", payload)["id"]


def bodies():
    """id -> pids of the bodies that began."""
    began = collections.defaultdict(list)
    if os.path.exists("ran"):
        with open("ran", encoding="utf-8") as lines:
            for line in lines:
                ident, pid = line.split()
                began[wire.parse_f58(ident)].append(int(pid))
    return began


def check(condition, text):
    if not condition:
        sys.exit(f"survive: {text}")


def equal(met, expected, what):
    check(met == expected, f"{what}: expected {expected}, met {met}")


class World:
    def __init__(self, cores):
        client = wire.Client()
        listener = tap.Tap().catch_up()
        self.cores = cores
        self.expected = {}
        for code in (0, 3):
            self.expected[submit(client, f"exit {code}")] = code << 8
        listener.all_clean(self.expected)
        endings = [("exit 0", 0), ("exit 7", 7 << 8), ("kill -9 $$", 137 << 8), ("exit 0", 0)]
        self.running = []
        for number in range(cores):
            command, status = endings[number % len(endings)]
            ident = submit(client, BODY, "body", str(number), command)
            self.running.append(ident)
            self.expected[ident] = status
        wire.until("the bodies began", lambda: all(bodies()[ident] for ident in self.running))
        self.waiting = []
        for number, urgency in enumerate([16, 20, 16, 5, 31, 16, 0, 20, 16, 1]):
            ident = submit(client, QUICK, "body", "1", str(number % 3), urgency=urgency)
            self.waiting.append(ident)
            if urgency:
                self.expected[ident] = (number % 3) << 8
        held = [self.waiting[6]]
        changes = [[self.waiting[0], 18], [self.waiting[4], 16], [self.waiting[7], 16]]
        client.call("job-manager.priority", {"jobs": changes})
        self.held = held
        # All that was owed is said: the engine has been offered what it takes, every `start` is stored.
        listener.all_have("start", self.running)
        client.close()
        listener.close()

    def look(self):
        """Everything that a restart must leave as it is."""
        client = wire.Client()
        stats = client.call("job-manager.stats-get")
        rows = fold.of_listing(client)
        groups = {name: [row["id"] for row in rows.order() if row["state"] & states] for name, states in GROUPS.items()}
        seen = {
            "seq": stats["seq"],
            "max_jobid": stats["max_jobid"],
            "rows": {ident: dict(row) for ident, row in rows.rows.items()},
            "groups": groups,
            "bodies": {ident: pids for ident, pids in bodies().items()},
            "allocated": client.call("job-manager.resource-status")["allocated"],
            "epoch": tap.Tap().next()["epoch"],
        }
        client.close()
        return seen

    def same(self, before):
        """Nothing is different from `before`."""
        after = self.look()
        for key in ("epoch", "max_jobid", "groups", "bodies", "rows", "seq", "allocated"):
            if key == "rows":
                for ident, row in before["rows"].items():
                    equal(after["rows"].get(ident), row, f"row of job {ident}")
            equal(after[key], before[key], key)
        for ident in self.running:
            pid = after["bodies"][ident][0]
            check(daemons.alive(pid), f"body {pid} of running job {ident} is gone")
        compare_all()

    def end(self):
        """Opens the gates; all jobs end, as they should, and nothing is held."""
        client = wire.Client()
        listener = tap.Tap({"from": "all", "allow": ["clean"]})
        client.call("job-manager.priority", {"jobs": [[ident, 16] for ident in self.held]})
        for ident in self.held:
            self.expected[ident] = (self.waiting.index(ident) % 3) << 8
        for number in range(self.cores):
            with open(f"gate.{number}", "w", encoding="ascii"):
                pass
        listener.all_clean(self.expected)
        ended_well(client, self.expected)
        once(self.running + self.waiting)
        client.close()
        listener.close()
        all_free(self.cores)
        compare_all()


GROUPS = {"pending": 14, "running": 48, "inactive": 64}


def ended_well(client, expected):
    """Every job is inactive with its status; none has an exception."""
    rows = fold.of_listing(client).rows
    for ident, status in expected.items():
        check(ident in rows, f"job {ident} is missing")
        row = rows[ident]
        met = (row["state"], row.get("waitstatus"), row.get("exception_occurred"), row.get("result"))
        equal(met, (64, status, False, 1 if status == 0 else 2), f"state, status, exception, result of job {ident}")


def once(ids):
    began = bodies()
    for ident in ids:
        equal(len(began[ident]), 1, f"times that the body of job {ident} began")


def all_free(cores):
    """A job on every core at once can run, and then nothing is allocated."""
    client = wire.Client()
    status = subprocess.run([os.path.join(daemons.BIN, "weir"), "submit", "--wait", f"-n{cores}", "true"], check=False, timeout=wire.TIMEOUT)
    equal(status.returncode, 0, "status of a job on all cores")
    equal(client.call("job-manager.resource-status")["allocated"]["execution"]["R_lite"], [], "what the job-manager says is held")
    allocated = client.call("sched.resource-status")["allocated"]
    equal(allocated and allocated["execution"]["R_lite"], [], "what the scheduler says is held")
    client.close()


def compare_all():
    """The listings, the journal, the archive and the log tell the same."""
    client = wire.Client()
    journal = subprocess.run(
        [os.path.join(daemons.BIN, "weir"), "journal", "--from=all", "--no-follow", "--json"],
        check=True, capture_output=True, text=True, encoding="utf-8", timeout=wire.TIMEOUT,
    ).stdout.splitlines()
    # A listing asked for after the journal was read can only be newer: nothing happens meanwhile in these tests.
    listing = fold.of_listing(client)
    tables = {"journal": fold.of_journal(journal)}
    store = os.path.join(daemons.statedir(), "store.sqlite")
    tables["archive"], tables["log"] = fold.of_archive(store), fold.of_log(store)
    client.close()
    for name, table in tables.items():
        different = fold.compare(listing, table, ("the listing", f"the {name}"))
        check(not different, "\n".join([f"the listing and the fold of the {name} differ"] + different[:20]))
    newest = {name: table.newest for name, table in tables.items()}
    return newest


def main():
    world = World(CORES)
    for name in sys.argv[1:]:
        others = {other: daemons.of(other) for other in daemons.SERVICES if other != name}
        before = world.look()
        old, new = daemons.kill9(name)
        print(json.dumps({name: [old, new]}))
        for other in daemons.SERVICES:
            daemons.wait_for(other)
        world.same(before)
        for other, pid in others.items():
            equal(daemons.of(other), pid, f"pid of {other}, which nobody killed")
    world.end()


if __name__ == "__main__":
    main()
