"""One body at most, one honest result, no slot lost: at each step at which the processes around a job can die.

    claims.py shepherd STEP     the shepherd of one job SIGKILLs itself at STEP (the instance has WEIR_SHEPHERD_DIE_AT=STEP@dead)
    claims.py node              the node process is killed under a running job
    claims.py together          a signal reaches a shepherd in one piece with its order
    claims.py relay WHAT        a real runner whose word to the job-manager is lost with it: start, finish or alloc
    claims.py engine            a stand-in engine: the job-manager dies between sending `start` and storing it, and around it
"""
import json
import os
import signal
import sys
import threading

import daemons
import engine
import fold
import relay
import survive
import tap
import wire

GATED = 'echo "$WEIR_JOB_ID $$" >>ran; until [ -e gate ]; do sleep 0.02; done; exit 4'

# step -> (times the body began at the least and at the most, result, status or None)
STEPS = {
    "after-mkdir": (1, 1, wire.INACTIVE, 4 << 8),
    "after-claim": (1, 1, wire.INACTIVE, 4 << 8),
    "after-reserve": (1, 1, wire.INACTIVE, 4 << 8),
    "after-executing": (0, 0, wire.INACTIVE, None),
    "after-exec": (0, 1, wire.INACTIVE, None),
    "before-status": (1, 1, wire.INACTIVE, None),
    "after-status": (1, 1, wire.INACTIVE, 4 << 8),
}


def events_of(client, ident):
    text = client.call("job-info.lookup", {"id": ident, "keys": ["eventlog"], "flags": 0})["eventlog"]
    return [json.loads(line) for line in text.splitlines()]


def names(client, ident):
    return [event["name"] for event in events_of(client, ident)]


def shepherd(step):
    least, most, _, status = STEPS[step]
    client = wire.Client()
    listener = tap.Tap().catch_up()
    # A body that would not end by itself: if its shepherd dies it must not live on.
    command = GATED if step != "after-exec" else GATED.replace("gate", "no-such-gate")
    with open("gate", "w", encoding="ascii"):
        pass
    ident = survive.submit(client, command)
    listener.all_clean([ident])
    survive.check(os.path.exists("dead"), f"no shepherd died at {step}: the hook was not reached")
    row = fold.of_listing(client).rows[ident]
    began = survive.bodies()[ident]
    survive.check(least <= len(began) <= most, f"the body began {len(began)} times, expected {least} to {most}")
    for pid in began:
        survive.check(not daemons.alive(pid), f"process {pid} of the body lives on though the job is inactive")
    survive.equal(row.get("waitstatus"), status, "wait status")
    survive.equal(row["result"], 2, "result")
    if status is None:
        survive.equal(row["exception_type"], "exec", "type of the exception")
        survive.check("lost" in row["exception_note"], f"the note does not say so: {row['exception_note']}")
    else:
        survive.equal(row["exception_occurred"], False, "whether an exception is shown")
    counts = names(client, ident)
    for name in ("alloc", "free", "clean"):
        survive.equal(counts.count(name), 1, f"{name} events among {counts}")
    survive.check(counts.count("start") <= 1, f"start more than once: {counts}")
    survive.all_free(survive.CORES)
    survive.compare_all()
    # Asked again after a restart of all, nothing runs again.
    daemons.kill9("weir-job-manager")
    for name in daemons.SERVICES:
        daemons.wait_for(name)
    survive.equal(survive.bodies()[ident], began, "bodies after a restart")
    print(f"{step}: {len(began)} bodies, {' '.join(counts[4:])}")


def node():
    """The node process is killed under two running jobs: node down is a kill -9, not a flag."""
    client = wire.Client()
    listener = tap.Tap().catch_up()
    pid = daemons.of("weir-node")
    ids = [survive.submit(client, GATED.replace("gate", "no-such-gate")) for _ in range(2)]
    wire.until("the bodies began", lambda: all(survive.bodies()[ident] for ident in ids))
    os.kill(pid, signal.SIGKILL)
    listener.all_clean(ids)
    rows = fold.of_listing(client).rows
    for ident in ids:
        survive.equal(rows[ident]["result"], 2, f"result of job {ident}")
        survive.equal(len(survive.bodies()[ident]), 1, f"times that the body of {ident} began")
        for body in survive.bodies()[ident]:
            survive.check(not daemons.alive(body), f"body {body} outlives its node")
    wire.until("a new node process", lambda: [new for new in daemons.find("weir-node") if new != pid])
    survive.all_free(survive.CORES)
    survive.compare_all()
    print(rows[ids[0]]["exception_type"], rows[ids[0]]["exception_note"])


def together():
    """The shepherds are stopped, so that what is sent to one of them piles up: its order, and a signal right behind it."""
    client = wire.Client()
    listener = tap.Tap().catch_up()
    shepherds = wire.until("a shepherd that waits", lambda: daemons.children(daemons.of("weir-node")))
    for pid in shepherds:
        os.kill(pid, signal.SIGSTOP)
    try:
        ident = survive.submit(client, "exec sleep 1000")
        listener.all_have("alloc", [ident])
        client.call("job-manager.kill", {"id": ident, "signum": 15})
        # All that was sent to the node process has been passed on once it answers.
        client.call("job-exec.ping", {"seq": 0})
        node = daemons.of("weir-node")
        wire.until("the node process has nothing to do", lambda: daemons.sleeps(node))
    finally:
        for pid in shepherds:
            os.kill(pid, signal.SIGCONT)
    listener.all_clean([ident])
    row = fold.of_listing(client).rows[ident]
    survive.equal((row["result"], row.get("waitstatus")), (2, 143 << 8), "result, status")
    survive.all_free(survive.CORES)


def lost_word(what):
    """The runner's word `what` is held back in a relay; the job-manager is killed; the word is lost with the connection."""
    with daemons.Hand("state") as hand:
        manager = hand.manager()
        between = relay.Relay("relay.socket", hand.uri)
        hand.info()
        said = threading.Event()

        def on_frame(way, message, raw):
            if way == "up" and message.type == wire.RESPONSE and message.payload:
                answer = wire.of_payload(message.payload)
                kind = answer.get("type")
                if (message.topic == "job-exec.start" and kind == what) or (message.topic == "sched.alloc" and what == "alloc" and kind == 0):
                    said.set()
                    between.hold("up")
            return [raw]

        between.on_frame = on_frame
        hand.runner("--cores=0-1", uri=between.uri)
        client = wire.Client()
        ident = survive.submit(client, GATED)
        if what == "finish":
            with open("gate", "w", encoding="ascii"):
                pass
        survive.check(said.wait(wire.TIMEOUT), f"the runner never said {what}")
        if what != "alloc":
            wire.until("the body began", lambda: survive.bodies()[ident])
        log = names(client, ident)
        hidden = {"start": "start", "finish": "finish", "alloc": "alloc"}[what]
        survive.check(hidden not in log, f"the word {what} came through: {log}")
        os.kill(manager.pid, signal.SIGSTOP)
        between.on_frame = None
        hand.running["weir-job-manager"].kill()
        hand.running.pop("weir-job-manager").wait()
        between.cut()
        between.release("up")
        hand.manager()
        for name in ("weir-job-info", "weir-job-runner"):
            wire.until(f"{name} is back", lambda name=name: daemons.answers(name))
        with open("gate", "w", encoding="ascii"):
            pass
        listener = tap.Tap({"from": "all", "allow": ["clean"]})
        listener.all_clean([ident])
        client = wire.Client()
        log = names(client, ident)
        survive.equal(len(survive.bodies()[ident]), 1, "times that the body began")
        for name in ("alloc", "start", "finish", "free", "clean"):
            survive.equal(log.count(name), 1, f"{name} events among {log}")
        survive.ended_well(client, {ident: 4 << 8})
        survive.all_free(2)
        survive.compare_all()
        print(what, "lost:", " ".join(log[4:]))
        listener.close()
        between.close()


def stand_in():
    """The job-manager's side of the bargain, by an engine that counts what it is told to start."""
    with daemons.Hand("state") as hand:
        hand.manager()
        hand.info()
        key = hand.key()

        def die(*words):
            """The engine says `words` to a stopped job-manager, which is then killed: they are on their way and never stored."""
            os.kill(hand.running["weir-job-manager"].pid, signal.SIGSTOP)
            for word in words:
                word()
            hand.kill("weir-job-manager")
            hand.manager()

        def again(due):
            """A new connection; sched-hello must name exactly the jobs of `due` with their R."""
            new = engine.Engine(key)
            survive.equal(new.held, due, "what sched-hello says is held")
            return new

        client = wire.Client()
        first = engine.Engine(key)
        ids = [client.call("job-ingest.submit", wire.submission(["true"]))["id"] for _ in range(4)]
        r = {ident: engine.make_r(core) for core, ident in enumerate(ids)}
        for ident in ids:
            first.expect("sched.alloc", ident)

        # The grant is lost: the job waits as before, nothing is held.
        die(lambda: first.grant(ids[0], r[ids[0]]))
        second = again({})
        offered = [second.expect("sched.alloc")["id"] for _ in ids]
        survive.equal(offered, ids, "order of the offers after the restart")

        # start is sent, its answer is lost.
        second.grant(ids[0], r[ids[0]])
        asked = second.expect("job-exec.start", ids[0])
        survive.equal((asked["reattach"], asked["R"]), (False, r[ids[0]]), "reattach, R of the first start")
        die(lambda: second.tell(ids[0], "start"))
        third = again({ids[0]: r[ids[0]]})
        asked = third.expect("job-exec.start", ids[0])
        survive.equal((asked["reattach"], asked["R"]), (False, r[ids[0]]), "reattach, R of a start whose answer was lost")
        survive.equal([offer["id"] for offer in third.pending("sched.alloc")], ids[1:], "offers: what is held is not offered again")

        # start is stored, then the job-manager dies: it asks to reattach.
        third.tell(ids[0], "start")
        listener = tap.Tap({"from": "all"})
        listener.all_have("start", [ids[0]])
        die()
        fourth = again({ids[0]: r[ids[0]]})
        survive.equal(fourth.expect("job-exec.start", ids[0])["reattach"], True, "reattach once start is stored")
        fourth.tell(ids[0], "reattached")

        # finish is said and lost, and said again.
        die(lambda: fourth.end(ids[0], 256))
        fifth = again({ids[0]: r[ids[0]]})
        survive.equal(fifth.expect("job-exec.start", ids[0])["reattach"], True, "reattach once more")
        fifth.tell(ids[0], "reattached")
        fifth.end(ids[0], 256)
        freed = fifth.expect("sched.free", ids[0])
        survive.equal((freed["R"], freed["final"]), (r[ids[0]], True), "what is freed")

        # A job whose engine lost it: released without a finish.
        for ident in ids[1:3]:
            fifth.expect("sched.alloc", ident)
            fifth.grant(ident, r[ident])
            fifth.expect("job-exec.start", ident)
            fifth.tell(ident, "start")
        fifth.tell(ids[1], "exception", severity=0, type="exec", note="lost: nobody knows")
        fifth.tell(ids[1], "release", ranks="all", final=True)
        fifth.expect("sched.free", ids[1])
        # One that is said to have finished twice counts once.
        fifth.tell(ids[2], "finish", status=0)
        fifth.tell(ids[2], "finish", status=256)
        fifth.tell(ids[2], "release", ranks="all", final=True)
        fifth.tell(ids[2], "release", ranks="all", final=True)
        fifth.expect("sched.free", ids[2])
        client = wire.Client()
        wire.until("job-info is back", lambda: daemons.answers("weir-job-info"))
        tap.Tap({"from": "all", "allow": ["clean"]}).all_clean(ids[:3])
        survive.equal(
            [events[4:] for events in (names(client, ident) for ident in ids[:3])],
            [
                ["alloc", "start", "finish", "release", "free", "clean"],
                ["alloc", "start", "exception", "release", "free", "clean"],
                ["alloc", "start", "finish", "release", "free", "clean"],
            ],
            "events",
        )
        rows = fold.of_listing(client).rows
        survive.equal([rows[ident]["result"] for ident in ids[:3]], [2, 2, 1], "results")
        survive.equal(rows[ids[2]]["waitstatus"], 0, "status of the one that finished twice")
        survive.equal(client.call("job-manager.resource-status")["allocated"]["execution"]["R_lite"], [], "what is held in the end")
        survive.equal(fifth.pending("sched.free"), [], "frees said twice")
        fold_equal(client)


def fold_equal(client):
    listing = fold.of_listing(client)
    store = os.path.join(daemons.statedir(), "store.sqlite")
    for name, table in (("archive", fold.of_archive(store)), ("log", fold.of_log(store))):
        survive.equal(fold.compare(listing, table, ("listing", name)), [], f"differences to the {name}")


if __name__ == "__main__":
    if sys.argv[1] == "shepherd":
        shepherd(sys.argv[2])
    elif sys.argv[1] == "node":
        node()
    elif sys.argv[1] == "together":
        together()
    elif sys.argv[1] == "relay":
        lost_word(sys.argv[2])
    else:
        stand_in()
