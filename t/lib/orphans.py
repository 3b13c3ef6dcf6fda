"""Requests to a service whose process is killed: all are answered with ECONNRESET, soon, and the client's connection lives on."""
import os
import signal
import sys

import daemons
import survive
import wire


def main():
    name = sys.argv[1]
    client = wire.Client()
    ident = survive.submit(client, "exit 0", urgency=0)
    waiting = [client.send("job-list.list-id", {"id": ident, "attrs": [], "state": 64}) for _ in range(5)]
    watching = [client.send("job-info.eventlog-watch", {"id": ident, "path": "eventlog", "flags": 0}, streaming=True) for _ in range(5)]
    for tag in watching:
        for _ in range(4):
            client.answer(tag)
    client.call("job-list.ping", {"seq": 0})
    pid = daemons.of(name)
    os.kill(pid, signal.SIGKILL)
    for tag in waiting + watching:
        try:
            answer = client.answer(tag, 10)
            survive.check(False, f"an answer from a dead process: {answer}")
        except wire.Refused as refused:
            survive.equal(refused.errnum, wire.ECONNRESET, "errno of a request whose service died")
            survive.check("went away" in refused.text, f"text says nothing: {refused.text}")
    daemons.wait_for(name, pid)
    survive.equal(client.call("job-list.list-id", {"id": ident, "attrs": ["state"]})["job"]["state"], 8, "state over the same connection")
    client.call("job-manager.raise", {"id": ident, "severity": 0, "type": "cancel"})


if __name__ == "__main__":
    main()
