"""Parameterized jobs and what is dispatched from them, by RPC.

    dispatch.py restarts   the parent is one after any daemon was killed; a key makes one child; children run
    dispatch.py refusals   what a dispatch must be like is told by name
    dispatch.py ends       nobody waits for a parent: not the queue's drain, not a shutdown; it ends when it is canceled
"""
import json
import os
import sys

import daemons
import survive
import wire

RULES = {"payload": "optional", "meta_required": ["who"], "meta_optional": ["note"]}


def parameterized(client, rules, command="exit 0"):
    environment = {"PATH": os.environ["PATH"], "DIR": os.getcwd()}
    spec = wire.submission(["sh", "-c", command], environment=environment, weir={"parameterized": rules})
    return client.call("job-ingest.submit", spec)["id"]


def row(client, ident, state=None):
    ask = {"id": ident, "attrs": ["all"]}
    if state is not None:
        ask["state"] = state
    return client.call("job-list.list-id", ask)["job"]


INACTIVE = 64


def names(client, ident):
    eventlog = client.call("job-manager.lookup", {"id": ident, "keys": ["eventlog"]})["eventlog"]
    return [json.loads(line)["name"] for line in eventlog.splitlines()]


def restarts():
    client = wire.Client()
    parent = parameterized(client, RULES, 'echo "$WEIR_META_WHO$WEIR_META_NOTE" >>"$DIR/ran"')
    first = client.call("job-manager.dispatch", {"id": parent, "meta": {"who": "a"}, "key": "k"})
    survive.equal(row(client, first["id"], INACTIVE)["result"], 1, "result of the first child")
    for daemon in ("weir-job-manager", "weir-job-runner", "weir-job-info"):
        daemons.kill9(daemon)
        for name in daemons.SERVICES:
            daemons.wait_for(name)
        client = wire.Client()
        again = client.call("job-manager.dispatch", {"id": parent, "meta": {"who": "a"}, "key": "k"})
        survive.equal((again["id"], again["known"]), (first["id"], True), f"the child of the key after {daemon} was killed")
        note = {"who": "b", "note": daemon}
        other = client.call("job-manager.dispatch", {"id": parent, "meta": note})["id"]
        survive.equal(row(client, other, INACTIVE)["result"], 1, f"result of a child after {daemon} was killed")
        survive.equal(row(client, parent)["state"], 2, "state of the parent: it depends")
    with open("ran", encoding="ascii") as file:
        met = sorted(file.read().split())
    survive.equal(met, ["a", "bweir-job-info", "bweir-job-manager", "bweir-job-runner"], "what the children were")
    survive.equal(names(client, parent), ["submit", "validate", "dependency-add"], "events of the parent")


def refused(client, ask, errnum, text):
    try:
        answer = client.call("job-manager.dispatch", ask)
    except wire.Refused as error:
        survive.equal(error.errnum, errnum, f"errnum of {ask}")
        survive.check(text in error.text, f"{text!r} is not in {error.text!r}")
    else:
        survive.check(False, f"{ask} was answered {answer}")


def refusals():
    client = wire.Client()
    parent = parameterized(client, RULES)
    plain = client.call("job-ingest.submit", wire.submission(["sleep", "1000"]))["id"]
    refused(client, {"id": parent}, 22, "meta.who: the parameterized job requires it")
    refused(client, {"id": parent, "meta": {"who": "x", "colour": "y"}}, 22, "meta.colour: expected keys")
    refused(client, {"id": parent, "meta": {"who": "x"}, "payload": "no base64"}, 22, "payload: expected base64")
    long = "A" * 4 * 8192
    refused(client, {"id": parent, "meta": {"who": "x"}, "payload": long}, 22, "payload: 24576 bytes: expected at most 16384")
    refused(client, {"id": plain}, 22, "is not parameterized")
    refused(client, {"id": 1}, 2, "unknown job id")
    forged = wire.submission(["true"], weir={"parent": parent, "dispatch": {"meta": {}}})
    try:
        client.call("job-ingest.submit", forged)
        survive.check(False, "a job was submitted as a child")
    except wire.Refused as error:
        survive.check("attributes.system.weir.parent" in error.text, error.text)
    client.call("job-manager.raise", {"id": plain, "severity": 0, "type": "cancel"})
    row(client, plain, INACTIVE)


def ends():
    client = wire.Client()
    parent = parameterized(client, RULES)
    client.call("job-manager.drain")
    client.call("job-manager.idle")
    child = client.call("job-manager.dispatch", {"id": parent, "meta": {"who": "x"}})["id"]
    client.call("job-manager.raise", {"id": parent, "severity": 0, "type": "cancel"})
    survive.equal(row(client, parent, INACTIVE)["result"], 4, "result of a canceled parent")
    survive.equal(row(client, child, INACTIVE)["result"], 1, "result of the child of a canceled parent")
    refused(client, {"id": parent, "meta": {"who": "x"}}, 22, "has ended: nothing can be dispatched")
    parameterized(client, RULES)


if __name__ == "__main__":
    {"restarts": restarts, "refusals": refusals, "ends": ends}[sys.argv[1]]()
