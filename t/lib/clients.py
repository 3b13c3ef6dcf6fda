"""Published clients of Nomad's HTTP interface on the instance at $WEIR_URI: each call they have for what weir serves.

    python clients.py python-nomad | nomadpy | lines | events | example | tools

Runs in the environment that .ci/clients makes. A job's end is waited for on the socket, a status on HTTP by a blocking query.
"""
import dataclasses
import http.client
import json
import os
import queue
import subprocess
import sys
import threading
import typing
from datetime import timedelta

import nomad
import nomadpy
import nomadpy.allocations
import nomadpy.event_stream
import nomadpy.jobs
import nomadpy.models
import nomadpy.nodes
import wire
from survive import check, equal

STATE = os.path.dirname(os.environ["WEIR_URI"].removeprefix("local://"))
ADDRESS = open(os.path.join(STATE, "http"), encoding="ascii").read().strip()
TOKEN = open(os.path.join(STATE, "http-token"), encoding="ascii").read().strip()
HOST, PORT = ADDRESS.rsplit(":", 1)
WAIT = timedelta(seconds=60)


def weir(*words):
    return subprocess.run(["weir", *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def name_of(ident):
    """As HTTP writes an id."""
    return wire.f58(ident, "f")


class Jobs:
    """One that runs, one that failed, one that is held, a parent and a child of it that ended; made once for all tests of a file."""

    def __init__(self):
        client = wire.Client()
        if os.path.exists("jobs.json"):
            ids = json.load(open("jobs.json", encoding="ascii"))
        else:
            environment = {"PATH": os.environ["PATH"]}

            def submit(command, urgency=16, **options):
                payload = wire.submission(["sh", "-c", command], environment=environment, urgency=urgency, **options)
                return client.call("job-ingest.submit", payload)["id"]

            ids = {
                "runs": submit("exec sleep 1000"),
                "failed": submit("exit 3"),
                "held": submit("true", urgency=0),
                "parent": submit("true", weir={"parameterized": {"payload": "optional", "meta_optional": ["owner"]}}),
            }
            answer = client.call("job-manager.dispatch", {"id": ids["parent"], "meta": {"owner": "ann"}})
            ids["child"], ids["seq"] = answer["id"], answer["seq"]
            for name in ("failed", "child"):
                subprocess.run(["weir", "wait", wire.f58(ids[name])], check=False, stderr=subprocess.DEVNULL)
            json.dump(ids, open("jobs.json", "w", encoding="ascii"))
        self.ids = ids
        self.runs, self.failed, self.held, self.parent = (name_of(ids[name]) for name in ("runs", "failed", "held", "parent"))
        self.client = nomadpy.Client(nomadpy.Config(address=f"http://{ADDRESS}", secret_id=TOKEN))
        # What was submitted on the socket is seen here from its seq on.
        rows, _ = self.client.query("/v1/jobs", nomadpy.QueryOptions(params={"after": str(ids["seq"])}))
        own = name_of(ids["child"])
        self.child = next(row["ID"] for row in rows if row["ID"].rsplit("-", 1)[-1] == own)
        self.wait_for(self.failed, "dead")
        self.wait_for(self.child, "dead")
        self.wait_for(self.runs, "running")

    def wait_for(self, ident, status):
        """Until it has this status, by a blocking query on its statuses."""
        index = 0
        while True:
            rows, meta = self.statuses({"jobs": [{"id": ident}]}, index=index, children=True)
            if rows and rows[0]["Status"] == status:
                return rows[0]
            check(meta.last_index > index or index == 0, f"the index did not rise: {index}, {meta.last_index}")
            index = meta.last_index

    def statuses(self, body=None, index=0, children=False, **options):
        options = nomadpy.QueryOptions(wait_index=index, wait_time=WAIT, **options)
        if children:
            options.params["include_children"] = "true"
        if body is None:
            return self.client.query("/v1/jobs/statuses", options)
        return self.client.post_query("/v1/jobs/statuses", body, options)


def python_nomad():
    jobs = Jobs()
    client = nomad.Nomad(host=HOST, port=int(PORT), token=TOKEN)
    everything = {jobs.runs, jobs.failed, jobs.held, jobs.parent, jobs.child}
    equal({row["ID"] for row in client.jobs.get_jobs()}, everything, "jobs")
    equal(len(client.jobs), 5, "number of jobs")
    equal({row["ID"] for row in client.jobs}, everything, "jobs, one by one")
    check(jobs.runs in client.jobs and "nothing" not in client.jobs, "which jobs are there")
    met = client.jobs.get_jobs(prefix=jobs.parent, namespace="*", filter_="Status == running", meta=True)
    equal([(row["ID"], row["Meta"]) for row in met], [(jobs.parent, None)], "jobs by prefix and filter")
    met = client.jobs.get_jobs(filter_="Meta.owner == ann", meta=True)
    equal([(row["ID"], row["Meta"]) for row in met], [(jobs.child, {"owner": "ann"})], "jobs by what they were dispatched with")
    equal(client.jobs.get_jobs(namespace="other"), [], "jobs elsewhere")

    for ident in (jobs.runs, jobs.child):
        equal(client.job.get_job(ident)["ID"], ident, "job")
        equal(client.job.get_summary(ident)["JobID"], ident, "summary")
        allocations = client.job.get_allocations(ident, all_=True, namespace="*")
        equal([row["JobID"] for row in allocations], [ident], "allocations")
        equal(client.allocation.get_allocation(allocations[0]["ID"])["JobID"], ident, "allocation")
        equal(client.job.get_versions(ident)["Versions"][0]["ID"], ident, "versions")
        equal(client.job.get_evaluations(ident), [], "evaluations")
        equal(client.job.get_deployments(ident), [], "deployments")
        equal(client.job.get_deployment(ident), None, "deployment")
    check(jobs.runs in client.job, "is it a job")
    task = client.job.get_job(jobs.failed)["TaskGroups"][0]["Tasks"][0]
    equal(task["Config"], {"command": "sh", "args": ["-c", "exit 3"]}, "the command, which its user may see")
    summary = client.job.get_summary(jobs.failed)
    equal(summary["Summary"]["task"]["Failed"], 1, "summary of the failed one")
    equal(sorted(summary["ClientStatus"]["byNode"].values()), ["failed", "notScheduled"], "status by node")

    nodes = client.nodes.get_nodes(resources=True)
    equal(len(nodes), 2, "nodes")
    check(all(node["NodeResources"]["Cpu"]["TotalCpuCores"] > 0 for node in nodes), "cores of nodes")
    equal(client.node.get_node(nodes[0]["ID"])["Name"], nodes[0]["Name"], "node")
    on = client.node.get_allocations(nodes[0]["ID"]) + client.node.get_allocations(nodes[1]["ID"])
    equal({row["JobID"] for row in on}, {jobs.runs, jobs.failed, jobs.child}, "allocations on nodes")
    equal(len(client.allocations.get_allocations()), 3, "allocations")
    one = client.allocations.get_allocations(per_page=1, namespace="*", filter_="ClientStatus == failed", resources=True)
    equal([row["JobID"] for row in one], [jobs.failed], "allocations by filter")
    equal(client.allocations.get_allocations(prefix=one[0]["ID"][:20])[0]["ID"], one[0]["ID"], "allocations by prefix")

    equal(client.deployments.get_deployments(prefix="", namespace="*"), [], "deployments")
    equal(client.evaluations.get_evaluations(), [], "evaluations")
    equal(client.regions.get_regions(), ["global"], "regions")
    equal([row["Name"] for row in client.namespaces.get_namespaces()], ["default"], "namespaces")
    equal(client.status.leader.get_leader(), ADDRESS, "leader")
    equal(client.status.peers.get_peers(), [ADDRESS], "peers")
    check("member" in client.agent.get_agent() and "Members" in client.agent.get_members(), "agent")

    def raises(kind, call):
        try:
            call()
        except kind as error:
            return error.nomad_resp.text
        raise AssertionError(f"expected {kind}")

    errors = nomad.api.exceptions
    equal(raises(errors.URLNotFoundNomadException, lambda: client.job.get_job("nothing")), "job not found", "no job")
    equal(raises(errors.URLNotFoundNomadException, lambda: client.deployment.get_deployment("x")), "deployment not found", "no deployment")
    equal(raises(errors.URLNotFoundNomadException, lambda: client.node.get_node("x")), "node not found", "no node")
    text = raises(errors.BadRequestNomadException, lambda: client.jobs.get_jobs(filter_="ID == my-job"))
    check("failed to read filter expression" in text, text)
    text = raises(errors.BadRequestNomadException, lambda: client.jobs.get_jobs(filter_="Foo == 1"))
    check('couldn\'t find key: struct field with name "Foo"' in text, text)
    stranger = nomad.Nomad(host=HOST, port=int(PORT), token="none")
    equal(raises(errors.URLNotAuthorizedNomadException, stranger.jobs.get_jobs), "Permission denied", "no token")


def fits(kind, value):
    """Whether a value is of the type that a model declares."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if inner and type(None) in inner:
        return value is None or any(fits(one, value) for one in inner if one is not type(None))
    if origin is list:
        return isinstance(value, list) and all(fits(inner[0], one) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(inner[1], one) for one in value.values())
    if kind is typing.Any:
        return True
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if dataclasses.is_dataclass(kind):
        if isinstance(value, kind):
            model(value)
        return isinstance(value, kind)
    return isinstance(value, kind)


def model(value):
    """Every field of a typed object is of its type."""
    hints = typing.get_type_hints(type(value))
    for field in dataclasses.fields(value):
        met = getattr(value, field.name)
        check(fits(hints[field.name], met), f"{type(value).__name__}.{field.name}: expected {hints[field.name]}, met {met!r}")


def has_all(raw, kind, but=()):
    """Every key that a typed client reads is there."""
    names = [field.metadata.get("json", nomadpy.models.json_name(field.name)) for field in dataclasses.fields(kind) if not field.metadata.get("omitempty")]
    missing = [name for name in names if name not in raw and name not in but]
    equal(missing, [], f"missing keys of {kind.__name__}")


def nomadpy_calls():
    jobs = Jobs()
    client = jobs.client
    options = nomadpy.QueryOptions

    stubs, meta = client.jobs.list()
    equal({stub.id for stub in stubs}, {jobs.runs, jobs.failed, jobs.held, jobs.parent, jobs.child}, "jobs")
    check(meta.last_index > 0 and meta.known_leader and meta.last_contact == timedelta(0), f"what comes with an answer: {meta}")
    for stub in stubs:
        model(stub)
    raw, _ = client.query("/v1/jobs?meta=true")
    has_all(raw[0], nomadpy.jobs.JobListStub)
    # Paging, with all that its options send.
    met, token = [], ""
    while True:
        page, meta = client.jobs.list(
            options(namespace="*", allow_stale=True, filter="Name matches `^sh$`", per_page=2, next_token=token, reverse=True))
        check(len(page) <= 2, "rows of a page")
        met += [stub.id for stub in page]
        token = meta.next_token
        if not token:
            break
    equal(sorted(met), sorted(stub.id for stub in stubs), "jobs by pages")

    for ident in (jobs.runs, jobs.held, jobs.parent, jobs.child):
        job, _ = client.jobs.info(ident)
        model(job)
        equal(job.id, ident, "job")
        summary, _ = client.jobs.summary(ident)
        model(summary)
        equal(summary.job_id, ident, "summary")
        versions, diffs, _ = client.jobs.versions(ident)
        equal(([job.id for job in versions], diffs), ([ident], []), "versions")
        allocations, _ = client.jobs.allocations(ident, all_allocs=True)
        for allocation in allocations:
            model(allocation)
            whole, _ = client.allocations.info(allocation.id)
            model(whole)
            equal(whole.job_id, ident, "allocation")
        equal(client.jobs.evaluations(ident)[0], [], "evaluations")
        equal(client.jobs.deployments(ident, all=True)[0], [], "deployments")
        equal(client.jobs.latest_deployment(ident)[0], None, "deployment")
    parent, _ = client.jobs.info(jobs.parent)
    asks = parent.parameterized_job
    equal((parent.status, asks.payload, asks.meta_optional), ("running", "optional", ["owner"]), "the parent")
    summary, _ = client.jobs.summary(jobs.parent)
    equal((summary.children.pending, summary.children.running, summary.children.dead), (0, 0, 1), "children")
    child, _ = client.jobs.info(jobs.child)
    equal((child.parent_id, child.dispatched, child.status), (jobs.parent, True, "dead"), "the child")

    allocations, _ = client.allocations.list(options(filter="ClientStatus == running"))
    equal([one.job_id for one in allocations], [jobs.runs], "running allocations")
    raw, _ = client.query("/v1/allocations")
    has_all(raw[0], nomadpy.allocations.AllocationListStub)
    equal(client.deployments.list()[0], [], "deployments")
    nodes, _ = client.nodes.list(options(params={"resources": "true", "os": "true"}))
    equal(len(nodes), 2, "nodes")
    for node in nodes:
        model(node)
        whole, _ = client.nodes.info(node.id)
        model(whole)
        equal((whole.name, whole.status), (node.name, "ready"), "node")
    raw, _ = client.query("/v1/nodes", options(params={"resources": "true", "os": "true"}))
    has_all(raw[0], nomadpy.nodes.NodeListStub)
    on = [one.job_id for node in nodes for one in client.nodes.allocations(node.id)[0]]
    equal(set(on), {jobs.runs, jobs.failed, jobs.child}, "allocations on nodes")
    equal([pool.name for pool in client.node_pools.list()[0]], ["all", "default"], "pools")
    equal([one.name for one in client.namespaces.list()[0]], ["default"], "namespaces")
    equal((client.regions.list(), client.status.leader(), client.status.peers()), (["global"], ADDRESS, [ADDRESS]), "status")
    members = client.agent.members()
    equal([member.status for member in members.members], ["alive"], "members")
    model(members)
    equal((client.agent.region(), client.agent.datacenter()), ("global", "dc1"), "agent")

    for call, text in (
        (lambda: client.jobs.info("nothing"), "job not found"),
        (lambda: client.deployments.info("x"), "deployment not found"),
        (lambda: client.nodes.info("x"), "node not found"),
        (lambda: client.allocations.info("x"), "alloc not found"),
    ):
        try:
            call()
        except nomadpy.UnexpectedResponseError as error:
            equal((error.status_code, error.body), (404, text), "what is not there")
        else:
            raise AssertionError(text)

    # A query that blocks until the job it is about changes.
    _, meta = client.jobs.info(jobs.held)
    answers = queue.Queue()
    threading.Thread(
        target=lambda: answers.put(client.jobs.info(jobs.held, options(wait_index=meta.last_index, wait_time=WAIT))), daemon=True).start()
    weir("job", "priority", wire.f58(jobs.ids["held"]), "20")
    job, woken = answers.get(timeout=60)
    check(woken.last_index > meta.last_index, "the index of a changed job")
    if job.priority != 20:
        # It was asked before the change, and woken by it; the body says what is true then.
        equal(client.jobs.info(jobs.held)[0].priority, 20, "urgency")


def lines():
    """Request lines that were seen on the wire, as they were."""
    jobs = Jobs()
    escaped = jobs.child.replace("/", "%2F")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = json.dumps({"jobs": [{"id": jobs.runs, "namespace": "default"}], "index": 3, "namespace": "*"})
    index = jobs.statuses()[1].last_index
    connection = http.client.HTTPConnection(HOST, int(PORT))
    for method, target, sent, expected in (
        ("GET", f"/v1/jobs?prefix={jobs.parent}&namespace=%2A&filter=Status+%3D%3D+running&meta=True", None, [jobs.parent]),
        ("GET", f"/v1/job/{jobs.child}/allocations?all=True&namespace=%2A", None, 1),
        ("GET", "/v1/nodes?resources=True", None, 2),
        ("GET", "/v1/deployments?prefix=&namespace=%2A", None, 0),
        ("GET", "/v1/jobs?namespace=%2A&stale=&index=1&wait=10000ms&filter=Name+matches+%60%5Esh%60&per_page=2&reverse=true", None, 2),
        ("GET", f"/v1/job/{escaped}/summary", None, "JobID"),
        ("POST", "/v1/jobs/statuses?index=1", body, [jobs.runs]),
        ("GET", f"/v1/job/{jobs.child}/summary?namespace=%2A", None, "JobID"),
        ("GET", "/v1/jobs/statuses?namespace=*&per_page=25", None, 4),
        ("POST", "/v1/jobs/statuses?namespace=*", body, [jobs.runs]),
        ("GET", f"/v1/jobs/statuses?include_children=true&namespace=default&filter=ParentID%20%3D%3D%20%22{jobs.parent}%22", None, [jobs.child]),
    ):
        connection.request(method, target, sent, {"X-Nomad-Token": TOKEN, **(form if sent else {})})
        answer = connection.getresponse()
        text = answer.read()
        equal(answer.status, 200, f"{method} {target}: {text[:200]}")
        for header in ("X-Nomad-Index", "X-Nomad-LastContact", "X-Nomad-KnownLeader"):
            check(answer.headers[header], f"{header} of {target}")
        met = json.loads(text)
        if isinstance(expected, str):
            equal(met[expected], jobs.child, target)
        elif isinstance(expected, int):
            equal(len(met), expected, target)
        else:
            equal([row["ID"] for row in met], expected, target)
    check(index > 0, "the index of statuses")


def events():
    jobs = Jobs()
    client = jobs.client

    # python-nomad: a thread, a queue, its own time-out of 5 s without a byte.
    stream, leave, met = nomad.Nomad(host=HOST, port=int(PORT), token=TOKEN).event.stream.get_stream(
        topic={"Job": "*"}, namespace="*", timeout=5)
    stream.daemon = True
    stream.start()
    seen = {}
    while not {jobs.runs, jobs.failed, jobs.held, jobs.parent, jobs.child} <= set(seen):
        line = met.get(timeout=60)
        for event in line["Events"]:
            equal(event["Topic"], "Job", "topic")
            seen[event["Key"]] = event["Payload"]["Job"]["Status"]
    first = weir("submit", "true")
    own = name_of(wire.parse_f58(first))
    statuses = []
    while statuses[-1:] != ["dead"]:
        for event in met.get(timeout=60)["Events"]:
            if event["Key"] == own:
                statuses.append(event["Payload"]["Job"]["Status"])
    equal(sorted(set(statuses), key=["pending", "running", "dead"].index), list(dict.fromkeys(statuses)), "statuses in their order")
    leave.set()

    # nomadpy: typed events, from an index on, of one job.
    stream = client.event_stream.stream({"Job": [own], "Allocation": []}, index=0, timeout=60)
    batches = []
    for batch in stream:
        batches.append(batch)
        if any(event.topic == "Job" and event.job().status == "dead" for event in batch.events):
            break
    stream.close()
    check(all(a.index < b.index for a, b in zip(batches, batches[1:])), "indexes rise")
    for batch in batches:
        for event in batch.events:
            check(event.index <= batch.index, "index of an event")
            if event.topic == "Allocation":
                model(event.allocation())
            else:
                equal((event.key, event.job().id), (own, own), "key")
    last = batches[-1].index

    def next_line(index):
        """The first line that is no heartbeat, and the heartbeats before it."""
        beats = 0
        lines = client.stream_json(f"/v1/event/stream?topic=Job&index={index}", timeout=60)
        try:
            for line in lines:
                if line:
                    return line, beats
                beats += 1
                if beats == 2:
                    return None, beats
        finally:
            lines.close()

    # The index that was seen comes again, the one after it does not: two heartbeats, within python-nomad's patience, and nothing else.
    equal(next_line(last)[0]["Index"], last, "the line of the index that is asked for")
    equal(next_line(last + 1), (None, 2), "nothing comes twice")
    second = threading.Thread(target=lambda: met.put(next_line("now")[0]), daemon=True)
    second.start()
    while not met.empty():
        met.get()
    another = name_of(wire.parse_f58(weir("submit", "true")))
    line = met.get(timeout=60)
    if line is not None:
        check(line["Index"] > last, "what comes after now")
        check(any(event["Key"] == another for event in line["Events"]), "the job that came after now")

    for index, status, text in ((last + 1000000, 400, "is in the future: events from"), ("x", 400, "Unable to parse index: "), (-1, 400, "Unable to parse index: ")):
        try:
            next_line(index)
        except nomadpy.UnexpectedResponseError as error:
            check(error.status_code == status and text in error.body, f"index {index}: {error}")
        else:
            raise AssertionError(f"index {index} was taken")


def example():
    """The three jobs of the document: one that runs, a parameterised parent, a child dispatched from it."""
    jobs = Jobs()
    rows, _ = jobs.statuses(namespace="*")
    equal({row["ID"] for row in rows}, {jobs.runs, jobs.failed, jobs.held, jobs.parent}, "without children")
    by_id = {row["ID"]: row for row in jobs.statuses(namespace="*", children=True)[0]}
    equal(set(by_id), {jobs.runs, jobs.failed, jobs.held, jobs.parent, jobs.child}, "with children")
    parent, child, runs = by_id[jobs.parent], by_id[jobs.child], by_id[jobs.runs]
    equal((parent["ChildStatuses"], parent["Allocs"], parent["ParentID"]), (["dead"], None, ""), "the parent")
    equal((child["ChildStatuses"], child["ParentID"], child["Status"]), (None, jobs.parent, "dead"), "the child")
    equal([one["ClientStatus"] for one in child["Allocs"]], ["complete"], "allocations of the child")
    equal((runs["ChildStatuses"], [one["ClientStatus"] for one in runs["Allocs"]]), (None, ["running"]), "the one that runs")
    equal(by_id[jobs.held]["Allocs"], None, "allocations of one that waits")
    only, _ = jobs.statuses(filter=f'ParentID == "{jobs.parent}"', children=True)
    equal([row["ID"] for row in only], [jobs.child], "children by filter")
    asked = {"jobs": [{"id": jobs.child}, {"id": jobs.parent}]}
    equal([row["ID"] for row in jobs.statuses(asked)[0]], [jobs.parent], "a child that is named is hidden, too")
    equal(len(jobs.statuses({**asked, "IncludeChildren": True})[0]), 2, "unless children are asked for")
    # Newest change first, or last; every job once on pages of one.
    index = [row["ModifyIndex"] for row in by_id.values()]
    equal(index, sorted(index, reverse=True), "order")
    token, met = "", []
    while True:
        page, meta = jobs.statuses(children=True, per_page=1, next_token=token, reverse=True)
        met += [row["ModifyIndex"] for row in page]
        token = meta.next_token
        if not token:
            break
    equal(met, sorted(index), "pages of one, oldest change first")


def tools():
    """A program of its own: its answers are its exit status and what it prints."""
    jobs = Jobs()
    program = os.path.join(os.path.dirname(sys.executable), "nomadtools")
    environment = {**os.environ, "NOMAD_ADDR": f"http://{ADDRESS}", "NOMAD_TOKEN": TOKEN}

    def run(*words):
        return subprocess.run([program, *words], env=environment, check=False, capture_output=True, text=True, timeout=60)

    for ident, status in ((jobs.failed, 3), (jobs.child, 0)):
        for how in ((), ("--polling",)):
            met = run("watch", *how, "-o", "none", "stopped", ident)
            equal(met.returncode, status, f"status of {ident}, {how}: {met.stderr}")
    # One that ends while it is followed, as its events say.
    own = name_of(wire.parse_f58(weir("submit", "sh", "-c", "sleep 1; exit 7")))
    jobs.wait_for(own, "running")
    met = run("watch", "-o", "none", "stopped", own)
    equal(met.returncode, 7, f"status of {own}: {met.stderr}")
    node = jobs.client.query("/v1/nodes")[0][0]
    equal(run("nodenametoid", node["Name"]).stdout.strip(), node["ID"], "a node's id by its name")


if __name__ == "__main__":
    {"python-nomad": python_nomad, "nomadpy": nomadpy_calls, "lines": lines, "events": events, "example": example, "tools": tools}[sys.argv[1]]()
