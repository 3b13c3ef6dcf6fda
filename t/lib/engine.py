"""A stand-in engine: speaks RFC 27 and RFC 32 to the job-manager and does nothing by itself, so that a test decides each step.

    engine = Engine(key)           # connect, take the names, sched-hello, exec-hello, sched-ready
    engine.held                    # what sched-hello said is held: {id: R}
    engine.expect("sched.alloc")   # the next such request, as an object
    engine.grant(id); engine.tell(id, "start")

Requests that come while another is waited for are kept. It never answers by itself.
"""
import time

import wire


def make_r(core=0, rank=0):
    """An R of one core."""
    return {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": str(rank), "children": {"core": str(core)}}],
            "nodelist": [f"node{rank}"],
            "starttime": time.time(),
            "expiration": 0.0,
        },
    }


class Engine:
    def __init__(self, key, limit=None):
        self.client = wire.Client()
        for name in ("sched", "job-exec", "resource"):
            self.client.add_service(name, key)
        self.held = {job["id"]: job.get("R") for job in self.client.stream("job-manager.sched-hello", {})}
        self.client.call("job-manager.exec-hello", {"service": "job-exec"})
        mode = {"mode": "limited", "limit": limit} if limit else {"mode": "unlimited"}
        self.client.call("job-manager.sched-ready", mode)
        self.kept = []
        self.open = {}

    def expect(self, topic, ident=None, timeout=wire.TIMEOUT):
        """The payload of the next request of that topic (and job)."""
        deadline = time.monotonic() + timeout
        at = 0
        while True:
            while at < len(self.kept):
                request, payload = self.kept[at]
                if request.topic == topic and ident in (None, payload.get("id")):
                    del self.kept[at]
                    self.open[(topic, payload.get("id"))] = request
                    return payload
                at += 1
            request = self.client.request(max(0.0, deadline - time.monotonic()))
            self.kept.append((request, wire.of_payload(request.payload)))

    def pending(self, topic):
        """Requests of that topic that came and were not looked at; reads what is there, waits for nothing."""
        while self.client.requests or self.client.pending():
            request = self.client.request(0.1)
            self.kept.append((request, wire.of_payload(request.payload)))
        return [payload for request, payload in self.kept if request.topic == topic]

    def grant(self, ident, r=None, annotations=None):
        answer = {"id": ident, "type": 0, "R": r or make_r()}
        if annotations:
            answer["annotations"] = annotations
        self.client.respond(self.open[("sched.alloc", ident)], answer)

    def deny(self, ident, note):
        self.client.respond(self.open[("sched.alloc", ident)], {"id": ident, "type": 2, "note": note})

    def tell(self, ident, kind, **data):
        """An answer to job-exec.start."""
        self.client.respond(self.open[("job-exec.start", ident)], {"id": ident, "type": kind, "data": data})

    def run_to_end(self, ident, status=0):
        self.tell(ident, "start")
        self.end(ident, status)

    def end(self, ident, status=0):
        self.tell(ident, "finish", status=status)
        self.tell(ident, "release", ranks="all", final=True)

    def close(self):
        self.client.close()
