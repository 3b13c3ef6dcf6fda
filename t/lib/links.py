"""Chaos on the links: bytes held, cut and swallowed at random points of a seed, between the job-manager and everyone else.

    links.py ROUNDS [SEED]

The daemons are started by hand, job-info, job-runner, a client and `weir journal` each behind a relay of its own. While jobs are
submitted, changed and run, every round does something to one link: holds one way for a moment, cuts it in the middle of a frame, or
swallows a few bytes, after which the receiver must notice and break off (the link of the engine, on which nothing is said while nothing
happens, breaks by itself then). In the end, the links left alone: what was answered is so, no body
began twice, the listing and the folds of journal, archive and log agree, and what `weir journal` printed over all of it is what the
journal holds, entry by entry.
"""
import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading

import daemons
import fold
import relay
import survive
import tap
import wire

# Fewer than the shortest frame has: what is left can never look like frames again.
SWALLOWED_MAX = 16
# A hold is a wait for the other side, never for the clock alone: short enough for nobody to give up.
HELD_MAX = 0.4


class Link(relay.Relay):
    """A relay that knows nothing of frames. What it does to the next bytes of a way is said by `plan`."""

    def __init__(self, path, target, quiet=False):
        self.quiet = quiet
        self.plans = {"up": collections.deque(), "down": collections.deque()}
        self.done = collections.Counter()
        super().__init__(path, target)

    def plan(self, way, what, after, amount):
        """Once `after` more bytes went that way on one connection: hold for `amount` seconds, cut, or swallow `amount` bytes."""
        with self.lock:
            self.plans[way].append((what, after, amount))

    def calm(self):
        """Nothing more is done."""
        with self.lock:
            for plans in self.plans.values():
                plans.clear()

    def carry(self, way, source, sink):
        while data := source.recv(1 << 16):
            for piece in self.through(way, data):
                if piece is None:
                    return
                sink.sendall(piece)

    def through(self, way, data):
        """The pieces to send on; None ends the connection."""
        while data:
            with self.lock:
                if not self.plans[way]:
                    break
                what, after, amount = self.plans[way][0]
                if after >= len(data):
                    self.plans[way][0] = (what, after - len(data), amount)
                    break
                self.plans[way].popleft()
            yield data[:after]
            self.done[what] += 1
            if what == "cut":
                yield None
                return
            if what == "hold":
                threading.Event().wait(amount)
                data = data[after:]
            elif self.quiet:
                yield data[after + amount :]
                threading.Event().wait(HELD_MAX)
                yield None
                return
            else:
                data = data[after + amount :]
        if data:
            yield data


class Load(threading.Thread):
    """Submits, changes and cancels through a link that breaks; what got no answer may have happened."""

    def __init__(self, uri, seed):
        super().__init__(daemon=True)
        self.uri, self.random = uri, random.Random(seed)
        self.expected, self.canceled = {}, set()
        self.enough = threading.Event()
        self.lost, self.failed = 0, None

    def run(self):
        client = None
        try:
            while not self.enough.is_set():
                try:
                    client = client or wire.Client(self.uri)
                    self.step(client)
                except (wire.Lost, ConnectionError, TimeoutError):
                    client, self.lost = None, self.lost + 1
                except wire.Refused as refused:
                    # What arrived mutilated is refused or breaks the connection; it is never taken for something else.
                    survive.check(refused.errnum in (wire.EPROTO, wire.EINVAL, wire.ENOSYS), str(refused))
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def step(self, client):
        code = self.random.choice([0, 0, 1, 7])
        payload = wire.submission(
            ["sh", "-c", survive.QUICK, "body", self.random.choice(["01", "03"]), str(code)],
            urgency=self.random.choice([16, 16, 3, 25]), cwd=os.getcwd(), environment=survive.ENVIRONMENT,
        )
        ident = client.call("job-ingest.submit", payload, timeout=5)["id"]
        self.expected[ident] = code << 8
        if self.random.random() < 0.4:
            some = self.random.sample(sorted(self.expected), min(5, len(self.expected)))
            client.call("job-manager.priority", {"jobs": [[one, self.random.randint(1, 31)] for one in some]}, timeout=5)
        if self.random.random() < 0.1:
            victim = self.random.choice(sorted(self.expected))
            self.canceled.add(victim)
            try:
                client.call("job-manager.raise", {"id": victim, "severity": 0, "type": "cancel"}, timeout=5)
            except wire.Refused:
                pass
        if len(self.expected) % 8 == 0:
            wire.until("most have ended", lambda: client.call("job-manager.stats-get", timeout=5)["active_jobs"] < 30)


def journal(uri, *words, out):
    return subprocess.Popen(
        [os.path.join(daemons.BIN, "weir"), "journal", "--json", *words],
        env=os.environ | {"WEIR_URI": uri}, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )


def lines(name):
    with open(name, encoding="utf-8") as text:
        return [line for line in text if line.endswith("\n")]


def whole(uri):
    """The journal read once, by seq."""
    read = subprocess.run(
        [os.path.join(daemons.BIN, "weir"), "journal", "--json", "--from=all", "--no-follow"],
        env=os.environ | {"WEIR_URI": uri}, check=True, capture_output=True, text=True, encoding="utf-8", timeout=wire.TIMEOUT,
    )
    return sorted((json.loads(line) for line in read.stdout.splitlines()), key=lambda event: event["seq"])


def same_as_whole(printed, due):
    """What was printed is the journal, entry by entry."""
    met = [json.loads(line) for line in printed]
    seqs = [event["seq"] for event in met]
    survive.check(seqs == sorted(set(seqs)), "what was printed repeats an event or is out of order")
    survive.equal(len(met), len(due), "events that were printed")
    for one, other in zip(met, due):
        one.pop("live", None), other.pop("live", None)
        survive.equal(one, other, f"event {one['seq']}")


def main(rounds, seed):
    chance = random.Random(seed)
    with daemons.Hand("state") as hand:
        hand.manager()
        names = ("info", "runner", "client", "journal")
        links = {name: Link(f"{name}.link", hand.uri, name == "runner") for name in names}
        hand.info(uri=links["info"].uri)
        hand.runner("--cores=0-1", uri=links["runner"].uri)
        with open("printed", "w", encoding="utf-8") as out:
            reader = journal(links["journal"].uri, "--from=all", out=out)
        load = Load(links["client"].uri, seed)
        load.start()
        wire.until("the reader is there", lambda: lines("printed"))
        for number in range(rounds):
            # Some come while the one before is not over yet.
            target = len(load.expected) + chance.randint(0, 2)
            wire.until("the load goes on", lambda target=target: len(load.expected) >= target or load.failed)
            link, way = links[chance.choice(names)], chance.choice(["up", "down"])
            what = chance.choice(["hold", "cut", "cut", "swallow"])
            amount = {"hold": chance.uniform(0.05, HELD_MAX), "cut": 0, "swallow": chance.randint(1, SWALLOWED_MAX)}[what]
            link.plan(way, what, chance.randint(0, 4000), amount)
            survive.equal(reader.poll(), None, f"whether weir journal ended in round {number}")
        for link in links.values():
            link.calm()
        load.enough.set()
        load.join(wire.TIMEOUT)
        survive.check(load.failed is None and not load.is_alive(), f"the load stopped: {load.failed!r}")
        for name in daemons.SERVICES:
            daemons.wait_for(name)
        client = wire.Client()
        tap.Tap({"from": "all", "allow": ["clean"]}).all_clean(load.expected)
        wire.until("nothing is active", lambda: client.call("job-manager.stats-get")["active_jobs"] == 0)
        rows, began = fold.of_listing(client).rows, survive.bodies()
        for ident, status in load.expected.items():
            survive.check(ident in rows, f"acknowledged job {ident} is missing")
            if ident in load.canceled:
                survive.check(len(began[ident]) <= 1, f"the body of canceled job {ident} began {len(began[ident])} times")
            else:
                survive.ended_well(client, {ident: status})
                survive.once([ident])
        survive.check(all(len(pids) <= 1 for pids in began.values()), "a body began twice")
        survive.all_free(2)
        survive.compare_all()
        due = whole(hand.uri)
        wire.until("the reader has all", lambda: json.loads(lines("printed")[-1])["seq"] >= due[-1]["seq"])
        reader.send_signal(signal.SIGTERM)
        _, said = reader.communicate(timeout=wire.TIMEOUT)
        same_as_whole(lines("printed"), due)
        done = sum((link.done for link in links.values()), collections.Counter())
        print(f"{dict(done)}, {load.lost} lost connections of the client, {said.count('trying again')} of the reader, {len(load.expected)} jobs, {len(due)} events")


if __name__ == "__main__":
    seed_given = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2] else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed_given}: repeat with WEIR_LINKS_SEED={seed_given}", flush=True)
    main(int(sys.argv[1]), seed_given)
