"""A random storm, and at quiet points three answers to "which jobs are there" that must be one.

    storm.py [SEED]      prints its seed; the same seed makes the same requests (what the jobs do meanwhile is the machine's)

Submits (good, failing, killed by a signal, no such command, too large, held, waitable), urgency changes one by one and in bulk (with
unknown and ended ids among them), cancels one by one and all at once, exceptions that are not fatal, memos, a queue that is stopped
and started. At a quiet point nothing moves: the queue is stopped and only jobs that end by cancel run. Then job-info's three
listings, a fold of `weir journal --from all --json`, and folds of the store's log and of its eventlogs are equal, element by element.
"""
import os
import random
import sys
import time

import fold
import survive
import tap
import wire

POINTS = int(os.environ.get("WEIR_STORM_POINTS", "4"))
STEPS = int(os.environ.get("WEIR_STORM_STEPS", "120"))
CORES = 6

KINDS = [
    (8, ["true"]),
    (3, ["sh", "-c", "sleep 0.05"]),
    (2, ["sh", "-c", "exit 9"]),
    (1, ["sh", "-c", "kill -KILL $$"]),
    (1, ["sh", "-c", "kill -TERM $$"]),
    (1, ["/nonexistent/command"]),
    (2, ["sleep", "1000"]),
]


class Storm:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.client = wire.Client()
        self.tap = tap.Tap().catch_up()
        self.ids, self.endless, self.signalled = [], set(), set()
        self.done = {}

    def count(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    def some(self, most=1):
        return self.random.sample(self.ids, min(len(self.ids), self.random.randint(1, most))) if self.ids else []

    def try_call(self, topic, payload):
        """A request whose refusal is an answer, too."""
        try:
            return self.client.call(topic, payload)
        except wire.Refused as refused:
            self.count(f"{topic}: {refused.text}")
            return None

    def submit(self):
        command = self.random.choices([kind for _, kind in KINDS], [weight for weight, _ in KINDS])[0]
        urgency = self.random.choice([0, 1, 15, 16, 16, 16, 16, 17, 31])
        options = {"cores": self.random.choice([1, 1, 1, 2]), "slots": self.random.choice([1, 1, 1, 2])}
        if self.random.random() < 0.03:
            options["cores"] = CORES + 1
        if self.random.random() < 0.3:
            options["job"] = {"name": self.random.choice(["alpha", "beta", "größe"])}
        if command[0] != "sleep" and self.random.random() < 0.3:
            options["duration"] = 900
        flags = self.random.choice([0, 0, 0, 4])
        payload = wire.submission(command, urgency=urgency, flags=flags, environment=survive.ENVIRONMENT, **options)
        ident = self.client.call("job-ingest.submit", payload)["id"]
        self.ids.append(ident)
        if command[0] == "sleep":
            self.endless.add(ident)

    def flood(self):
        tags = []
        for _ in range(self.random.randint(2, 20)):
            payload = wire.submission(["true"], urgency=self.random.choice([0, 16, 20]), environment=survive.ENVIRONMENT)
            tags.append(self.client.send("job-ingest.submit", payload))
        self.ids += [self.client.answer(tag)["id"] for tag in tags]

    def urgency(self):
        for ident in self.some():
            self.try_call("job-manager.urgency", {"id": ident, "urgency": self.random.randint(0, 31)})

    def bulk(self):
        jobs = [[ident, self.random.choice([0, 1, 16, 30, 31])] for ident in self.some(40)]
        if self.random.random() < 0.2:
            jobs.append([4711, 5])
        if jobs:
            jobs.append(self.random.choice(jobs))
            self.client.call("job-manager.priority", {"jobs": jobs})

    def cancel(self):
        for ident in self.some():
            self.try_call("job-manager.raise", {"id": ident, "severity": 0, "type": "cancel", "note": self.random.choice(["", "enough", "größer"])})

    def cancel_all(self):
        states = self.random.choice([wire.SCHED, wire.RUN])
        request = {"dry_run": False, "userid": 0xFFFFFFFF, "states": states, "severity": 0, "type": "cancel"}
        self.client.call("job-manager.raiseall", request)

    def complain(self):
        for ident in self.some(3):
            self.try_call(
                "job-manager.raise",
                {"id": ident, "severity": self.random.randint(1, 7), "type": self.random.choice(["foo", "bar"]), "note": "not fatal"},
            )

    def memo(self):
        for ident in self.some(2):
            value = self.random.choice([None, 1, "text", {"deep": {"er": [1, 2]}}, {"deep": None}])
            self.try_call("job-manager.memo", {"id": ident, "memo": {self.random.choice(["a", "b"]): value}, "volatile": self.random.random() < 0.3})

    def kill(self):
        for ident in self.some():
            if self.try_call("job-manager.kill", {"id": ident, "signum": 15}) is not None:
                self.signalled.add(ident)

    def queue(self, start):
        self.client.call("job-manager.queue-start", {"start": start, "all": True})

    def step(self):
        steps = [
            (10, self.submit), (2, self.flood), (5, self.urgency), (3, self.bulk), (3, self.cancel), (0.3, self.cancel_all),
            (2, self.complain), (2, self.memo), (1, self.kill), (0.5, lambda: (self.queue(False), self.queue(True))),
        ]
        step = self.random.choices([step for _, step in steps], [weight for weight, _ in steps])[0]
        self.count(getattr(step, "__name__", "step"))
        step()

    def settle(self):
        """Stops the queue and waits until all that ends by itself has ended."""
        self.queue(False)
        deadline = time.monotonic() + wire.TIMEOUT
        while True:
            self.tap.complete_to(self.client.call("job-manager.stats-get")["seq"])
            moving = self.moving()
            if not moving:
                break
            survive.check(time.monotonic() < deadline, f"these never end: {moving}")
            self.tap.next()

    def moving(self):
        """Jobs that hold resources and are going to post more: all but those that sleep."""
        allocated, ended, started, fatal = set(), set(), set(), set()
        for event in self.tap.events:
            ident, name = event.get("id"), event["entry"]["name"]
            if name == "alloc":
                allocated.add(ident)
            elif name == "start":
                started.add(ident)
            elif name == "clean":
                ended.add(ident)
            elif name == "exception" and event["entry"]["context"]["severity"] == 0:
                fatal.add(ident)
        quiet = (self.endless & started) - fatal - self.signalled
        return sorted((allocated | fatal) - ended - quiet)


def check(storm):
    newest = storm.client.call("job-manager.stats-get")["seq"]
    tables = survive.compare_all()
    for name in ("log", "journal"):
        survive.equal(tables[name], newest, f"newest seq in the {name}")
    survive.equal(storm.client.call("job-manager.stats-get")["seq"], newest, "seq after the look: the point was not quiet")
    listing = fold.of_listing(storm.client)
    groups = {name: len([row for row in listing.order() if row["state"] & states]) for name, states in survive.GROUPS.items()}
    live = {ident: [event for event in storm.tap.events if event.get("id") == ident] for ident in storm.ids}
    for ident, events in live.items():
        numbers = [event["eventlog_seq"] for event in events]
        survive.equal(numbers, list(range(1, len(numbers) + 1)), f"entries of job {ident} that a live listener got")
    counts = storm.client.call("job-list.job-stats", {})
    rows = listing.rows.values()
    parts = {key: sum(row.get("result") == bit for row in rows) for key, bit in (("successful", 1), ("failed", 2), ("canceled", 4), ("timeout", 8))}
    survive.equal({key: counts[key] for key in parts}, parts, "job-stats")
    survive.equal(counts["job_states"]["total"], len(rows), "total of job-stats")
    journal = storm.client.call("job-list.stats-get")["journal"]
    odd = {key: journal[key] for key in ("duplicates", "invalid", "unknown", "gaps", "rebuilds")}
    survive.equal(set(odd.values()), {0}, f"what job-info found odd in the journal: {odd}")
    return newest, groups


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}: repeat with WEIR_STORM_SEED={seed}", flush=True)
    storm = Storm(seed)
    for point in range(POINTS):
        for _ in range(STEPS):
            storm.step()
        storm.settle()
        newest, groups = check(storm)
        print(f"point {point + 1}: seq {newest}, {groups}", flush=True)
        storm.queue(True)
    everything = {"dry_run": False, "userid": 0xFFFFFFFF, "states": 62, "severity": 0, "type": "cancel"}
    storm.client.call("job-manager.raiseall", everything)
    storm.tap.all_clean(storm.ids)
    check(storm)
    survive.all_free(CORES)
    print(" · ".join(f"{what} {count}" for what, count in sorted(storm.done.items())))


if __name__ == "__main__":
    main()
