"""The claim protocol under attack: another boot, a copied state directory, shepherds that are stopped.

    attacked.py reboot            everything dies at once, the machine has another boot id: what ran is lost, what ended is told, the rest runs
    attacked.py copy              a second instance on a copy of the first one's state directory, while that runs
    attacked.py stopped           a shepherd and its node process are stopped across a restart of every daemon
    attacked.py stop ID           stops the shepherd of a job of the instance at $WEIR_URI, its siblings and its node process
    attacked.py nothing DIR       waits until no process of the instance in DIR is left
"""
import json
import os
import shutil
import signal
import subprocess
import sys

import daemons
import fold
import survive
import tap
import wire

GATED = 'echo "$WEIR_JOB_ID $$" >>ran; until [ -e "gate.$1" ]; do sleep 0.02; done; exit "$2"'


def claimant(directory, ident):
    with open(f"{directory}/jobs/{ident}/claim", encoding="ascii") as file:
        return json.loads(file.readline())


def whole(directory, ident):
    try:
        with open(f"{directory}/jobs/{ident}/status", encoding="utf-8") as file:
            return "\n" in file.read()
    except FileNotFoundError:
        return False


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def stop(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def open_gate(number):
    with open(f"gate.{number}", "w", encoding="ascii"):
        pass


def gated(client, number, code, **more):
    return survive.submit(client, GATED, "body", str(number), str(code), **more)


def began(*idents):
    wire.until("the bodies began", lambda: all(survive.bodies()[ident] for ident in idents))


def ended(client, ident):
    """(result, wait status or None, type and note of the exception) once it is inactive."""
    tap.Tap({"from": "all", "allow": ["clean"]}).all_clean([ident])
    row = fold.of_listing(client).rows[ident]
    return row["result"], row.get("waitstatus"), row.get("exception_type", ""), row.get("exception_note", "")


def is_lost(client, ident, why):
    result, status, kind, note = ended(client, ident)
    survive.equal((result, status, kind), (2, None, "exec"), f"job {ident}: result, status, exception")
    survive.check("lost" in note and why in note, f"job {ident}: the note does not say so: {note}")


def ready():
    for name in daemons.SERVICES:
        wire.until(f"{name} answers", lambda name=name: daemons.answers(name))
    return wire.Client()


def reboot():
    with daemons.Hand("state") as hand:
        hand.manager()
        hand.info()
        hand.runner("--cores=0-2")
        client = ready()
        runs, vanished, ends = (gated(client, number, 3) for number in (1, 2, 3))
        waits = gated(client, 4, 4)
        began(runs, vanished, ends)
        tap.Tap({"from": "all", "allow": ["start"]}).all_have("start", [runs, vanished, ends])
        # One ends while nobody is there to tell it to.
        hand.kill("weir-job-runner")
        open_gate(3)
        wire.until("the status is written", lambda: whole("state", ends))
        # The power goes: nobody sees anybody go.
        node = daemons.of("weir-node")
        everybody = [node] + daemons.children(node) + [pid for pids in survive.bodies().values() for pid in pids]
        stop(*filter(daemons.alive, everybody))
        for pid in filter(daemons.alive, everybody):
            os.kill(pid, signal.SIGKILL)
        for name in list(hand.running):
            hand.kill(name)
        for pid in everybody:
            daemons.gone(pid)
        # The disk never heard of one of them.
        shutil.rmtree(f"state/jobs/{vanished}")
        with open("boot", "w", encoding="ascii") as file:
            file.write("another boot\n")
        os.environ["WEIR_BOOT_ID_FILE"] = os.path.abspath("boot")
        before = survive.bodies()
        for number in (1, 2, 4):
            open_gate(number)
        hand.manager()
        hand.info()
        hand.runner("--cores=0-2")
        client = ready()
        for ident in (runs, vanished):
            is_lost(client, ident, "the machine was restarted")
        survive.equal(ended(client, ends)[:2], (2, 3 << 8), "what had ended: result, status")
        survive.equal(ended(client, waits)[:2], (2, 4 << 8), "what waited: result, status")
        for ident in (runs, vanished, ends):
            survive.equal(survive.bodies()[ident], before[ident], f"bodies of job {ident}")
        survive.equal(len(survive.bodies()[waits]), 1, "bodies of the job that waited")
        survive.all_free(3)
        survive.compare_all()


def copy():
    with daemons.Hand("state") as first:
        manager = first.manager()
        first.info()
        first.runner("--cores=0-1")
        client = ready()
        ids = [gated(client, number, 3) for number in (1, 2)]
        began(*ids)
        tap.Tap({"from": "all", "allow": ["start"]}).all_have("start", ids)
        node = daemons.of("weir-node")
        bodies = survive.bodies()
        claims = [claimant("state", ident) for ident in ids]
        # As a snapshot would be: of one moment.
        stop(manager.pid)
        subprocess.run(["cp", "-a", "state", "copy"], check=True)
        os.kill(manager.pid, signal.SIGCONT)
        # One began after its directory was copied.
        shutil.rmtree(f"copy/jobs/{ids[1]}")
        with daemons.Hand("copy") as second:
            second.manager()
            second.info()
            second.runner("--cores=0-1")
            client = ready()
            for ident in ids:
                is_lost(client, ident, "copy")
            survive.equal(survive.bodies(), bodies, "bodies")
            for pid in sum(bodies.values(), []):
                survive.check(daemons.alive(pid), f"body {pid} of the first instance was killed by the second")
            again = survive.submit(client, "exit 5")
            survive.equal(ended(client, again)[1], 5 << 8, "a job of the copy's own")
            survive.all_free(2)
        os.environ["WEIR_URI"] = first.uri
        survive.equal(daemons.of("weir-node"), node, "node process of the first")
        survive.equal([claimant("state", ident) for ident in ids], claims, "claims of the first")
        for number in (1, 2):
            open_gate(number)
        client = wire.Client()
        for ident in ids:
            survive.equal(ended(client, ident)[:2], (2, 3 << 8), f"job {ident} in the first: result, status")
        survive.equal(survive.bodies(), bodies, "bodies in the end")
        survive.all_free(2)
        survive.compare_all()


def stopped():
    with daemons.Hand("state") as hand:
        hand.manager()
        hand.info()
        hand.runner("-s2", "--cores=0")
        client = ready()
        ident = gated(client, 1, 3)
        began(ident)
        tap.Tap({"from": "all", "allow": ["start"]}).all_have("start", [ident])
        shepherd = claimant("state", ident)["pid"]
        stop(parent(shepherd), shepherd)
        for name in list(hand.running):
            hand.kill(name)
        open_gate(1)
        hand.manager()
        hand.info()
        hand.runner("-s2", "--cores=0")
        client = ready()
        other = survive.submit(client, "exit 5")
        survive.equal(ended(client, other)[1], 5 << 8, "another job")
        canceled = survive.submit(client, "exec sleep 1000")
        tap.Tap({"from": "all", "allow": ["start"]}).all_have("start", [canceled])
        client.call("job-manager.raise", {"id": canceled, "type": "cancel", "severity": 0})
        survive.equal(ended(client, canceled)[:2], (4, 143 << 8), "a job that is canceled")
        survive.equal(ended(client, ident)[:2], (2, 3 << 8), "the job whose shepherd was stopped: result, status")
        survive.equal(len(survive.bodies()[ident]), 1, "its bodies")
        text = client.call("job-info.lookup", {"id": ident, "keys": ["eventlog"], "flags": 0})["eventlog"]
        names = [json.loads(line)["name"] for line in text.splitlines()]
        for name in ("alloc", "start", "finish", "free", "clean"):
            survive.equal(names.count(name), 1, f"{name} events among {names}")
        survive.all_free(2)
        survive.compare_all()


def stop_job(ident):
    shepherd = claimant(daemons.statedir(), wire.parse_f58(ident))["pid"]
    node = parent(shepherd)
    stop(node, *daemons.children(node))


def nothing(directory):
    directory = os.path.realpath(directory)
    names = [*daemons.SERVICES, "weir-node"]
    wire.until("nothing is left", lambda: not any(daemons.find(name, directory) for name in names))


if __name__ == "__main__":
    {"reboot": reboot, "copy": copy, "stopped": stopped, "stop": stop_job, "nothing": nothing}[sys.argv[1]](*sys.argv[2:])
