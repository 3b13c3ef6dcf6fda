"""Nodes as the journal tells of them: killed by pid, drained, and what becomes of jobs on them.

    nodes.py killed       two of four node processes are killed while a sysbatch job runs on all
    nodes.py engine       the same, and the engine as well: nothing is told twice
    nodes.py common       one node of a job on two is killed: the job fails, the dead node's part is lost
    nodes.py drain        a drained node gets no jobs, over restarts of every daemon
    nodes.py dispatched   a child's meta values and its payload reach its tasks
"""
import base64
import json
import os
import signal
import socket
import sys
import time

import daemons
import survive
import wire

HOST = socket.gethostname()
GATED = 'echo "$WEIR_TASK_RANK" >>"$DIR/ran"; until [ -e "$DIR/go.$WEIR_TASK_RANK" ]; do sleep 0.02; done; exit 0'


class Journal:
    """All entries, in order, as far as they were waited for."""

    def __init__(self):
        self.client = wire.Client()
        self.batches = self.client.stream("job-manager.events", {"from": "all"})
        self.entries = []
        self.at = 0

    def more(self):
        self.entries += [entry for entry in next(self.batches).get("events", [])]

    def wait_for(self, name, fits=lambda entry: True):
        """The next entry of that name that fits, after the one that was waited for last."""
        deadline = time.monotonic() + wire.TIMEOUT
        while True:
            while self.at < len(self.entries):
                entry = self.entries[self.at]
                self.at += 1
                if entry["entry"]["name"] == name and fits(entry):
                    return entry["entry"].get("context", {})
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no {name} within {wire.TIMEOUT:.0f} s; the last entries: {self.entries[-5:]}")
            self.more()

    def of(self, ident):
        """Names and contexts of a job's entries so far."""
        return [(entry["entry"]["name"], entry["entry"].get("context", {})) for entry in self.entries if entry.get("id") == ident]

    def parts(self, ident):
        """What was said of a job's parts, as `RANKS STATUS`."""
        reports = [context["allocs"] for name, context in self.of(ident) if name == "alloc-status"]
        return [f"{one['ranks']} {one['status']}" for report in reports for one in report]


def node_pid(rank):
    with open(f"{daemons.statedir()}/node-{HOST}-{rank}.lock", encoding="ascii") as file:
        return int(file.read())


def kill_node(rank):
    os.kill(node_pid(rank), signal.SIGKILL)


def submit(client, command, **options):
    environment = {"PATH": os.environ["PATH"], "DIR": os.getcwd()}
    return client.call("job-ingest.submit", wire.submission(["sh", "-c", command], environment=environment, **options))["id"]


def of(ident):
    return lambda entry: entry.get("id") == ident


def touch(name):
    open(name, "w", encoding="ascii").close()


def ran():
    try:
        with open("ran", encoding="ascii") as file:
            return sorted(file.read().split())
    except FileNotFoundError:
        return []


def ranks_told(journal, name, wanted):
    """Waits until entries of that name have named exactly these ranks, each once."""
    told = []
    while len(told) < len(wanted):
        idset = journal.wait_for(name)["idset"]
        for piece in idset.split(","):
            first, _, last = piece.partition("-")
            told += range(int(first), int(last or first) + 1)
    survive.equal(sorted(told), sorted(wanted), f"ranks that are {name}")


def begin(client, journal):
    ident = submit(client, GATED, weir={"type": "sysbatch"})
    journal.wait_for("alloc", of(ident))
    wire.until("all four parts have begun", lambda: ran() == ["0", "1", "2", "3"])
    journal.wait_for("start", of(ident))
    return ident


def killed():
    client, journal = wire.Client(), Journal()
    define = journal.wait_for("resource-define")
    survive.equal(define["pools"], {"default": "0-3"}, "pools")
    survive.equal(journal.wait_for("online")["idset"], "0-3", "nodes that are online at first")
    ident = begin(client, journal)
    for rank in (1, 3):
        kill_node(rank)
    mark = journal.at
    ranks_told(journal, "offline", [1, 3])
    journal.at = mark
    ranks_told(journal, "online", [1, 3])
    wire.until("both nodes are back", lambda: client.call("resource.status")["online"] == "0-3")
    for name in ("0", "2"):
        touch(f"go.{name}")
    finish = journal.wait_for("finish", of(ident))
    survive.equal(finish["status"], 35072, "status of the job: that of a part that is lost")
    journal.wait_for("clean", of(ident))
    parts = expand(journal.parts(ident))
    for rank in (1, 3):
        survive.equal([what for which, what in parts if which == rank], ["unknown", "lost"], f"what was told of rank {rank}")
    for rank in (0, 2):
        survive.equal([what for which, what in parts if which == rank], ["complete"], f"what was told of rank {rank}")
    exceptions = [context for name, context in journal.of(ident) if name == "exception"]
    survive.equal([(one["type"], one["severity"]) for one in exceptions], [("node-fail", 1)] * 2, "exceptions")
    survive.equal(ran(), ["0", "1", "2", "3"], "bodies that were begun")
    # Whoever was killed is told of in this order.
    names = [entry["entry"]["name"] for entry in journal.entries]
    survive.check(names.index("offline") < names.index("alloc-status"), "a part is unknown before its node is offline")
    another = submit(client, "exit 0", weir={"type": "sysbatch"})
    survive.equal(journal.wait_for("finish", of(another))["status"], 0, "status on all nodes that are back")


def expand(parts):
    found = []
    for one in parts:
        ranks, status = one.split()
        for piece in ranks.split(","):
            first, _, last = piece.partition("-")
            found += [(rank, status) for rank in range(int(first), int(last or first) + 1)]
    return found


def engine():
    client, journal = wire.Client(), Journal()
    ident = begin(client, journal)
    kill_node(2)
    journal.wait_for("alloc-status", lambda entry: "lost" in json.dumps(entry))
    touch("go.1")
    journal.wait_for("alloc-status", lambda entry: "complete" in json.dumps(entry))
    before = journal.parts(ident)
    for daemon in ("weir-job-runner", "weir-job-manager"):
        daemons.kill9(daemon)
        for name in daemons.SERVICES:
            daemons.wait_for(name)
        journal = Journal()
        client = wire.Client()
        # Something that the engine did after it told what it knows.
        other = submit(client, "exit 0")
        journal.wait_for("clean", of(other))
        survive.equal(journal.parts(ident), before, f"what is told of parts after {daemon} was killed")
    for rank in (0, 3):
        touch(f"go.{rank}")
    survive.equal(journal.wait_for("finish", of(ident))["status"], 35072, "status")
    journal.wait_for("clean", of(ident))
    survive.equal(ran(), ["0", "1", "2", "3"], "bodies that were begun")


def common():
    client, journal = wire.Client(), Journal()
    spec = wire.jobspec(
        ["sh", "-c", 'echo "$WEIR_TASK_RANK" >>"$DIR/ran"; exec sleep 1000'],
        environment={"PATH": os.environ["PATH"], "DIR": os.getcwd()},
    )
    spec["resources"] = [{"type": "node", "count": 2, "with": spec["resources"]}]
    ident = client.call("job-ingest.submit", {"J": wire.wrap(spec), "urgency": 16, "flags": 0})["id"]
    wire.until("both parts have begun", lambda: ran() == ["0", "1"])
    journal.wait_for("start", of(ident))
    kill_node(1)
    journal.wait_for("clean", of(ident))
    exceptions = [context for name, context in journal.of(ident) if name == "exception"]
    survive.equal([(one["type"], one["severity"]) for one in exceptions], [("node-fail", 0)], "exceptions")
    parts = expand(journal.parts(ident))
    survive.equal([what for which, what in parts if which == 1][0], "unknown", "what was told first of the dead node's part")
    survive.equal([what for which, what in parts if which == 0], ["failed"], "what was told of the other part")


def drain():
    client, journal = wire.Client(), Journal()
    journal.wait_for("online")
    answer = client.call("resource.drain", {"targets": f"{HOST}-[1-3]", "reason": "dust"})
    told = journal.wait_for("drain")
    survive.equal((told["idset"], told["nodelist"], told["reason"], told["userid"]), ("1-3", f"{HOST}-[1-3]", "dust", os.getuid()), "entry")
    survive.equal(journal.entries[journal.at - 1]["seq"], answer["seq"], "seq of the answer")
    for daemon in (None, "weir-job-runner", "weir-job-manager"):
        if daemon:
            daemons.kill9(daemon)
            for name in daemons.SERVICES:
                daemons.wait_for(name)
            client, journal = wire.Client(), Journal()
        shown = client.call("resource.status")["drain"]
        survive.equal([(ranks, one["reason"]) for ranks, one in shown.items()], [("1-3", "dust")], f"drained after {daemon}")
        first = submit(client, "sleep 1000")
        survive.equal(ranks_of(client, journal, first), "0", "rank that was given")
        second = submit(client, "exit 0")
        every = submit(client, "exit 0", weir={"type": "sysbatch"})
        client.call("job-manager.raise", {"id": first, "severity": 0, "type": "cancel"})
        survive.equal(ranks_of(client, journal, second), "0", "rank that was given next")
        survive.equal(ranks_of(client, journal, every), "0", "ranks of a job on every ready node")
        journal.wait_for("clean", of(every))
    try:
        client.call("resource.drain", {"targets": "0-1"})
    except wire.Refused as refused:
        survive.check("rank 1 already drained" in str(refused), str(refused))
    else:
        sys.exit("a drained node was drained again")
    # More than are offered to the scheduler at a time, and none can run now: whoever can is not kept waiting.
    fours = [submit_on(client, 4) for _ in range(100)]
    one = submit(client, "exit 0")
    journal.wait_for("clean", of(one))
    client.call("resource.undrain", {"targets": "1-3"})
    for four in fours:
        survive.equal(journal.wait_for("finish", of(four))["status"], 0, "status of a job that waited for drained nodes")
    survive.equal(client.call("resource.status")["drain"], {}, "drained in the end")


def submit_on(client, nodes):
    spec = wire.jobspec(["true"], environment={"PATH": os.environ["PATH"]})
    spec["resources"] = [{"type": "node", "count": nodes, "with": spec["resources"]}]
    return client.call("job-ingest.submit", {"J": wire.wrap(spec), "urgency": 16, "flags": 0})["id"]


def ranks_of(client, journal, ident):
    journal.wait_for("alloc", of(ident))
    r = json.loads(client.call("job-manager.lookup", {"id": ident, "keys": ["R"]})["R"])
    return r["execution"]["R_lite"][0]["rank"]


def dispatched():
    client, journal = wire.Client(), Journal()
    script = 'cat >"$DIR/read.$WEIR_META_COLOUR"; echo "$NOMAD_META_COLOUR $DIR" >>"$DIR/read.$WEIR_META_COLOUR"'
    parent = submit(client, script, weir={"parameterized": {"payload": "optional", "meta_required": ["colour"]}})
    for colour, text in (("red", "hello\n"), ("blue", "x" * 16384)):
        payload = base64.b64encode(text.encode()).decode()
        child = client.call("job-manager.dispatch", {"id": parent, "meta": {"colour": colour}, "payload": payload})["id"]
        survive.equal(journal.wait_for("finish", of(child))["status"], 0, "status of the child")
        with open(f"read.{colour}", encoding="ascii") as file:
            survive.equal(file.read(), f"{text}{colour} {os.getcwd()}\n", "what the child read and had in its environment")


if __name__ == "__main__":
    {"killed": killed, "engine": engine, "common": common, "drain": drain, "dispatched": dispatched}[sys.argv[1]]()
