"""Kills the three daemons in turn, again and again, while a client submits, changes and cancels jobs that really run.

What was answered must hold in the end: each acknowledged job is there and ended as its body says, no body began twice, and a
cancelled one began at most once. A request that got no answer may or may not have happened; that is the client's to find out.

    rounds.py ROUNDS          each daemon in turn, waited for in between
    rounds.py harsh KILLS     any process of the instance, node process and shepherds too, nobody waited for: jobs may be lost with
                              their shepherd, but say so, and none begins twice
"""
import collections
import os
import random
import signal
import sys
import threading

import daemons
import fold
import survive
import tap
import wire

SEED = 20


class Load(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.random = random.Random(SEED)
        self.expected, self.canceled = {}, set()
        self.enough = threading.Event()
        self.lost = 0
        self.failed = None

    def run(self):
        client = None
        try:
            while not self.enough.is_set():
                try:
                    client = client or wire.Client()
                    self.step(client)
                except wire.Lost:
                    client, self.lost = None, self.lost + 1
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def step(self, client):
        code = self.random.choice([0, 0, 0, 1, 7])
        ident = survive.submit(client, survive.QUICK, "body", str(self.random.choice(["02", "05", "1"])), str(code), urgency=self.random.choice([16, 16, 3, 25]))
        self.expected[ident] = code << 8
        if self.random.random() < 0.3:
            some = self.random.sample(sorted(self.expected), min(5, len(self.expected)))
            client.call("job-manager.priority", {"jobs": [[one, self.random.randint(1, 31)] for one in some]})
        if self.random.random() < 0.1:
            victim = self.random.choice(sorted(self.expected))
            self.canceled.add(victim)
            try:
                client.call("job-manager.raise", {"id": victim, "severity": 0, "type": "cancel"})
            except wire.Refused:
                pass
        # Real jobs take their time: do not run away from them.
        if len(self.expected) % 8 == 0:
            wire.until("most have ended", lambda: client.call("job-manager.stats-get")["active_jobs"] < 40)


def victims():
    """Pids by the kind of process, of this instance alone."""
    found = {name: daemons.find(name) for name in [*daemons.SERVICES, "weir-node"]}
    found["weir-shepherd"] = [pid for node in found["weir-node"] for pid in daemons.children(node)]
    return found


def kill_any(chance):
    """SIGKILL to one process, daemons more often than not."""
    kinds = {name: pids for name, pids in victims().items() if pids}
    weights = {"weir-job-manager": 3, "weir-job-info": 2, "weir-job-runner": 3, "weir-node": 1, "weir-shepherd": 3}
    name = chance.choices(sorted(kinds), [weights[kind] for kind in sorted(kinds)])[0]
    try:
        os.kill(chance.choice(kinds[name]), signal.SIGKILL)
    except ProcessLookupError:
        pass
    return name


def harsh(kills):
    chance = random.Random(SEED)
    load = Load()
    load.start()
    killed = collections.Counter()
    for _ in range(kills):
        target = len(load.expected) + chance.randint(0, 3)
        # Some come right after the one before, some a few jobs later: a daemon that is just coming back is met, too.
        wire.until("the load goes on", lambda target=target: len(load.expected) >= target or load.failed)
        killed[kill_any(chance)] += 1
    finish(load)
    client = wire.Client()
    rows = fold.of_listing(client).rows
    began = survive.bodies()
    lost = 0
    for ident, status in load.expected.items():
        survive.check(ident in rows, f"acknowledged job {ident} is missing")
        row = rows[ident]
        survive.equal(row["state"], 64, f"state of job {ident}")
        survive.check(len(began[ident]) <= 1, f"the body of job {ident} began {len(began[ident])} times")
        for pid in began[ident]:
            survive.check(not daemons.alive(pid), f"body {pid} of job {ident} lives on")
        if ident in load.canceled:
            continue
        if row["exception_occurred"]:
            lost += 1
            survive.check(row["exception_type"] in ("exec", "node-fail"), f"job {ident} ended with {row['exception_type']}: {row['exception_note']}")
        else:
            survive.equal((row["waitstatus"], len(began[ident])), (status, 1), f"status and bodies of job {ident}")
    survive.check(lost <= 2 * survive.CORES * (killed["weir-shepherd"] + killed["weir-node"]), f"{lost} jobs were lost")
    survive.all_free(survive.CORES)
    survive.compare_all()
    print(f"{dict(killed)}, {load.lost} lost connections, {len(load.expected)} jobs, {lost} lost")


def finish(load):
    """Ends the load; everything is back and all jobs have ended."""
    load.enough.set()
    load.join(wire.TIMEOUT)
    survive.check(load.failed is None and not load.is_alive(), f"the load stopped: {load.failed!r}")
    for name in daemons.SERVICES:
        daemons.wait_for(name)
    tap.Tap({"from": "all", "allow": ["clean"]}).all_clean(load.expected)


def main():
    load = Load()
    load.start()
    count = 0
    for _ in range(int(sys.argv[1])):
        for name in ("weir-job-manager", "weir-job-info", "weir-job-runner"):
            target = len(load.expected) + 4
            wire.until("the load goes on", lambda target=target: len(load.expected) >= target or load.failed)
            daemons.kill9(name)
            count += 1
    finish(load)
    client = wire.Client()
    survive.ended_well(client, {ident: status for ident, status in load.expected.items() if ident not in load.canceled})
    began = survive.bodies()
    rows = fold.of_listing(client).rows
    for ident in load.expected:
        times = len(began[ident])
        if ident in load.canceled:
            survive.check(times <= 1, f"the body of canceled job {ident} began {times} times")
        else:
            survive.equal(times, 1, f"times that the body of job {ident} began")
    survive.equal([row for row in rows.values() if row["state"] != 64], [], "jobs that have not ended")
    survive.all_free(survive.CORES)
    newest = survive.compare_all()
    print(f"{count} kills, {load.lost} lost connections, {len(load.expected)} jobs, {newest['log']} events")


if __name__ == "__main__":
    if sys.argv[1] == "harsh":
        SEED = int(os.environ.get("WEIR_KILL_SEED") or random.SystemRandom().randrange(1 << 32))
        print(f"seed {SEED}: repeat with WEIR_KILL_SEED={SEED}", flush=True)
        harsh(int(sys.argv[2]))
    else:
        main()
