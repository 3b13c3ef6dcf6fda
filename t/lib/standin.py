"""A stand-in job-manager for one job-info: plays a journal into it and asks it, as the broker would.

    broker = Broker("socket"); broker.accept()       # the handshake, service.add and the journal request of a job-info
    broker.play({"epoch":…, "events":[…]})           # one response of its journal stream
    broker.ask("job-list.list", {...})               # the answers to a request that we route to it

A request carries one hop, as from one client; read-your-writes marks are the caller's to play.
"""
import os
import socket
import time

import wire

HOP = b"client-of-the-stand-in"


class Broker:
    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(16)
        self.listener.settimeout(wire.TIMEOUT)
        self.uri = f"local://{os.path.abspath(path)}"
        self.accepted = 0

    def accept(self):
        """Takes a connection in and answers until its journal request is there; returns that request's payload."""
        sock, _ = self.listener.accept()
        self.accepted += 1
        # Served as a client's end of the same frames: only who speaks first differs.
        self.peer = wire.Client.__new__(wire.Client)
        self.peer.path, self.peer.sock, self.peer.buffer, self.peer.tag = "job-info", sock, bytearray(), 0
        self.peer.seen, self.peer.requests = wire.collections.defaultdict(wire.collections.deque), wire.collections.deque()
        sock.sendall(b"\0")
        self.journal = None
        while self.journal is None:
            request = self.peer.request()
            if request.topic == "job-manager.events":
                self.journal = request
            else:
                self.answer(request)
        return wire.of_payload(self.journal.payload)

    def respond(self, request, payload=None, errnum=0, text=None):
        data = wire.to_payload(payload) if not errnum else (text.encode() + b"\0" if text else None)
        flags = request.flags & (wire.F_STREAMING | wire.F_UPSTREAM)
        frame = wire.frame(wire.RESPONSE, request.topic, data, flags, (), os.getuid(), 5, errnum, request.tag)
        self.peer.send_frame(frame)

    def answer(self, request):
        """What a job-manager without jobs of its own says."""
        if request.topic == "service.add":
            self.respond(request)
        elif not request.flags & wire.F_NORESPONSE:
            self.respond(request, errnum=wire.ENOENT, text="invalid job id")

    def play(self, batch):
        self.respond(self.journal, batch)

    def ask(self, topic, payload=None, streaming=False):
        """The answers (objects) to one request; for a stream until it ends."""
        self.peer.tag += 1
        flags = wire.F_STREAMING if streaming else 0
        data = wire.to_payload(payload or {})
        self.peer.send_frame(wire.frame(wire.REQUEST, topic, data, flags, (HOP,), os.getuid(), 5, tag=self.peer.tag))
        answers, deadline = [], time.monotonic() + wire.TIMEOUT
        while True:
            message = self.peer.recv(max(0.0, deadline - time.monotonic()))
            if message.type == wire.REQUEST:
                self.answer(message)
            elif message.type == wire.RESPONSE and message.tag == self.peer.tag:
                if message.aux == wire.ENODATA and streaming:
                    return answers
                if message.aux:
                    raise wire.Refused(topic, message.aux, (message.payload or b"").decode())
                answers.append(wire.of_payload(message.payload))
                if not streaming:
                    return answers

    def close(self):
        self.peer.sock.close()
        self.listener.close()
