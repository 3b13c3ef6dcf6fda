"""Submissions under a key, over the wire: lost answers, many at once, a pipelined thousand with a kill.

    keys.py lost | at-once | many COUNT
"""
import json
import os
import subprocess
import sys
import threading

import daemons
import relay
import survive
import wire


def submit(client, key, command=("true",), **more):
    return client.send("job-ingest.submit", wire.submission(list(command)) | {"key": key} | more)


def jobs(client):
    return {row["id"] for row in wire.list_jobs(client, ["state"])}


def lost():
    """The answer is swallowed and the connection cut: the second attempt gives the job that the first one made."""
    go_between = relay.Relay("between", os.environ["WEIR_URI"])
    swallowed = []

    def swallow(way, message, raw):
        if way == "down" and message.topic == "job-ingest.submit":
            swallowed.append(wire.of_payload(message.payload)["id"])
            go_between.cut()
            return []
        return [raw]

    direct = wire.Client()
    go_between.on_frame = swallow
    through = wire.Client(go_between.uri)
    try:
        through.answer(submit(through, "lost"))
        survive.check(False, "the answer came")
    except wire.Lost:
        pass
    wire.until("the answer is swallowed", lambda: swallowed)
    again = direct.answer(submit(direct, "lost"))
    survive.equal((again["id"], again["known"]), (swallowed[0], True), "the job of the second attempt")
    survive.equal(jobs(direct), {swallowed[0]}, "jobs")
    # weir submits again by itself.
    del swallowed[:]
    dropped = []

    def swallow_first(way, message, raw):
        if way == "down" and message.topic == "job-ingest.submit" and not dropped:
            dropped.append(wire.of_payload(message.payload)["id"])
            go_between.cut()
            return []
        return [raw]

    go_between.on_frame = swallow_first
    weir = [os.path.join(daemons.BIN, "weir"), "submit", "--json", "--key=again", "true"]
    done = subprocess.run(weir, env=os.environ | {"WEIR_URI": go_between.uri}, capture_output=True, text=True, timeout=60, check=True)
    answer = json.loads(done.stdout)
    survive.equal((answer["id"], answer["known"]), (dropped[0], True), f"what weir submit says: {done.stderr}")


def at_once():
    """Many connections, one key, all at once: one job; the same key with another jobspec is refused and names it."""
    clients = [wire.Client() for _ in range(16)]
    start = threading.Barrier(len(clients))
    answers = [None] * len(clients)

    def run(at):
        start.wait()
        tags = [submit(clients[at], "at once") for _ in range(8)]
        answers[at] = [clients[at].answer(tag) for tag in tags]

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [answer for of_one in answers for answer in of_one]
    ids = {answer["id"] for answer in said}
    survive.equal(len(ids), 1, "jobs of one key")
    survive.equal(sum(1 for answer in said if not answer.get("known")), 1, "answers that say the job is new")
    try:
        clients[0].answer(submit(clients[0], "at once", ["false"]))
        survive.check(False, "another jobspec was taken")
    except wire.Refused as refused:
        survive.equal(refused.errnum, wire.EEXIST, "errno for another jobspec")
        survive.check(wire.f58(ids.pop()) in refused.text, f"the job is not named: {refused.text}")


def many(count):
    """Pipelined; a kill -9 of the job-manager in the middle; all again: as many jobs as keys, in their order."""
    client = wire.Client()
    answered = {}
    tags = [submit(client, f"many {at}") for at in range(count)]
    try:
        for at, tag in enumerate(tags):
            answered[at] = client.answer(tag)["id"]
            if at == count // 2:
                daemons.kill9("weir-job-manager")
    except wire.Lost:
        pass
    survive.check(len(answered) > count // 2, f"only {len(answered)} answers")
    client = wire.Client()
    tags = [submit(client, f"many {at}") for at in range(count)]
    again = [client.answer(tag) for tag in tags]
    for at, ident in answered.items():
        survive.equal((again[at]["id"], again[at].get("known")), (ident, True), f"the job of key {at}")
    survive.equal(len({answer["id"] for answer in again}), count, "jobs")
    new = [answer["id"] for answer in again if not answer.get("known")]
    survive.equal(new, sorted(new), "new jobs in the order of their submission")
    print(f"{len(answered)} of {count} answered before the kill, {len(new)} new after it")


def main():
    {"lost": lost, "at-once": at_once, "many": lambda: many(int(sys.argv[2]))}[sys.argv[1]]()


if __name__ == "__main__":
    main()
