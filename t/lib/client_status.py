"""A job's status on each node, as the socket, HTTP and `weir job clients` tell it.

    client_status.py killed    two of four node processes are killed while a sysbatch job runs on all, and come back
    client_status.py drained   a job that waits, nodes that are drained, a job that ends badly on one of them
"""
import json
import os
import subprocess
import sys
import urllib.request

import daemons
import nodes
import survive
import wire


def http(path, body=None):
    statedir = daemons.statedir()
    with open(f"{statedir}/http", encoding="ascii") as file:
        address = file.read().strip()
    with open(f"{statedir}/http-token", encoding="ascii") as file:
        token = file.read().strip()
    base = address if address.startswith("http") else f"http://{address}"
    request = urllib.request.Request(
        base.rstrip("/") + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"X-Nomad-Token": token},
    )
    with urllib.request.urlopen(request, timeout=wire.TIMEOUT) as answer:
        return json.load(answer)


def on_socket(client, ident):
    answer = client.call("job-info.clients", {"id": ident})
    rows = answer["clients"]
    met = {}
    for row in rows:
        met[row["status"]] = met.get(row["status"], 0) + 1
    survive.equal({name: count for name, count in answer["counts"].items() if count}, met, "counts of the answer")
    survive.equal(len(answer["counts"]), 9, "statuses that are counted")
    return {row["node"]: row["status"] for row in rows}, {row["node"]: row.get("reason") for row in rows}


def agree(client, ident):
    """Statuses by rank; what HTTP and the command say of it is the same."""
    statuses, _ = on_socket(client, ident)
    names = {node["ID"]: node["Name"] for node in http("/v1/nodes")}
    summary = http(f"/v1/job/{ident}/summary")["ClientStatus"]
    survive.equal({names[node]: status for node, status in summary["byNode"].items()}, statuses, "ClientStatus.byNode")
    by_status = {names[node]: status for status, all in summary["byStatus"].items() for node in all}
    survive.equal(by_status, statuses, "ClientStatus.byStatus")
    survive.equal(summary["totalNodes"], len(statuses), "ClientStatus.totalNodes")
    (row,) = http("/v1/jobs/statuses", {"Jobs": [{"ID": str(ident)}]})
    words = {"pending": "starting"}
    allocs = {names[one["NodeID"]]: words.get(one["ClientStatus"], one["ClientStatus"]) for one in row["Allocs"] or []}
    told = json.loads(subprocess.run(["weir", "job", "clients", "--json", str(ident)], check=True, capture_output=True).stdout)
    survive.equal({row["node"]: row["status"] for row in told["clients"]}, statuses, "weir job clients")
    on_nodes = {node: status for node, status in statuses.items() if status not in ("queued", "notScheduled")}
    survive.equal(allocs, on_nodes, "Allocs of /v1/jobs/statuses")
    return {int(name.rsplit("-", 1)[1]): status for name, status in statuses.items()}


def wait_for(client, ident, wanted):
    """Until the socket tells these statuses; then HTTP tells them too, at once."""
    met = {}

    def reached():
        met.update({int(name.rsplit("-", 1)[1]): status for name, status in on_socket(client, ident)[0].items()})
        return met == wanted

    try:
        wire.until(f"statuses are {wanted}", reached)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; they are {met}") from None
    survive.equal(agree(client, ident), wanted, "statuses")


def every(status, **others):
    return {rank: others.get(f"n{rank}", status) for rank in range(4)}


def killed():
    client, journal = wire.Client(), nodes.Journal()
    journal.wait_for("online")
    ident = nodes.begin(client, journal)
    survive.equal(agree(client, ident), every("running"), "statuses while all run")
    for rank in (1, 3):
        nodes.kill_node(rank)
    wait_for(client, ident, every("running", n1="lost", n3="lost"))
    wire.until("both nodes are back", lambda: client.call("resource.status")["online"] == "0-3")
    survive.equal(agree(client, ident), every("running", n1="lost", n3="lost"), "statuses when they are back")
    nodes.touch("go.0")
    wait_for(client, ident, every("running", n0="complete", n1="lost", n3="lost"))
    nodes.touch("go.2")
    journal.wait_for("clean", nodes.of(ident))
    wait_for(client, ident, every("complete", n1="lost", n3="lost"))
    # All nodes are there for the next one.
    another = nodes.submit(client, "exit 0", weir={"type": "sysbatch"})
    journal.wait_for("clean", nodes.of(another))
    wait_for(client, another, every("complete"))
    _, reasons = on_socket(client, ident)
    survive.check("went away" in reasons[f"{nodes.HOST}-1"], f"why it is lost: {reasons}")


def drained():
    client, journal = wire.Client(), nodes.Journal()
    journal.wait_for("online")
    client.call("resource.drain", {"targets": "0-3", "reason": "dust"})
    waits = nodes.submit(client, "exit 0", weir={"type": "sysbatch"})
    wait_for(client, waits, every("queued"))
    _, reasons = on_socket(client, waits)
    survive.check(all("dust" in reason for reason in reasons.values()), f"why it waits: {reasons}")
    # Both become ready with one entry, so the job that waits for ready nodes gets both.
    client.call("resource.undrain", {"targets": "0-1"})
    journal.wait_for("clean", nodes.of(waits))
    wait_for(client, waits, every("notScheduled", n0="complete", n1="complete"))
    ident = nodes.submit(client, 'test "$WEIR_TASK_RANK" = 0 || exit 3', weir={"type": "sysbatch"})
    journal.wait_for("clean", nodes.of(ident))
    wait_for(client, ident, every("notScheduled", n0="complete", n1="failed"))
    _, reasons = on_socket(client, ident)
    survive.equal(reasons[f"{nodes.HOST}-1"], "exit code 3", "why it failed there")
    survive.check("dust" in reasons[f"{nodes.HOST}-3"], f"why it is not there: {reasons}")


if __name__ == "__main__":
    {"killed": killed, "drained": drained}[sys.argv[1]]()
