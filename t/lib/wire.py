"""A bare client of the wire protocol, written from rfc/ alone: what a stranger's client sees, nothing of weir's own crates.

    client = wire.Client()                       # $WEIR_URI
    client.call("job-manager.ping", {"seq": 1})  # -> the answer's object; raises Refused(errnum, text)
    for answer in client.stream("job-list.list", {...}): ...
    tag = client.send(topic, payload); client.answer(tag)   # pipelined

Every wait is bounded (TIMEOUT seconds) and is a wait for the socket. As a program:  wire.py TOPIC [JSON]  prints the answers, one
a line; with --stream all answers of a stream.
"""
import base64
import collections
import json
import os
import select
import socket
import struct
import sys
import time

MAGIC = b"\x12\x00\xee\xff"
REQUEST, RESPONSE, EVENT, CONTROL = 1, 2, 4, 8
F_TOPIC, F_PAYLOAD, F_NORESPONSE, F_ROUTE, F_UPSTREAM, F_PRIVATE, F_STREAMING = 1, 2, 4, 8, 16, 32, 64
ENOENT, EAGAIN, EEXIST, EINVAL, ENOSYS, ENODATA, EPROTO, ECONNRESET, ESTALE = 2, 11, 17, 22, 38, 61, 71, 104, 116
DEPEND, PRIORITY, SCHED, RUN, CLEANUP, INACTIVE = 2, 4, 8, 16, 32, 64
TIMEOUT = float(os.environ.get("WEIR_TEST_TIMEOUT", "60"))

Message = collections.namedtuple("Message", "type flags userid rolemask aux tag topic payload routes")


class Refused(Exception):
    """The service said no."""

    def __init__(self, topic, errnum, text):
        super().__init__(f"{topic}: errno {errnum}: {text}")
        self.topic, self.errnum, self.text = topic, errnum, text


class Lost(Exception):
    """The connection ended."""


def part(data):
    return (bytes([len(data)]) if len(data) < 255 else b"\xff" + struct.pack(">I", len(data))) + data


def frame(kind, topic, payload=None, flags=0, routes=(), userid=0xFFFFFFFF, rolemask=0, aux=0xFFFFFFFF, tag=0):
    """A whole frame; `payload` is bytes as they travel (NUL included) or None."""
    flags |= F_TOPIC | F_ROUTE | (F_PAYLOAD if payload is not None else 0)
    body = b"".join(part(hop) for hop in routes) + part(b"") + part(topic.encode())
    if payload is not None:
        body += part(payload)
    body += part(struct.pack(">BBBBIIII", 0x8E, 1, kind, flags, userid, rolemask, aux, tag))
    return MAGIC + struct.pack(">I", len(body)) + body


def parse(body):
    """The message in a frame's body."""
    parts, at = [], 0
    while at < len(body):
        size, at = body[at], at + 1
        if size == 255:
            size, at = struct.unpack(">I", body[at : at + 4])[0], at + 4
        parts.append(body[at : at + size])
        at += size
    _, _, kind, flags, userid, rolemask, aux, tag = struct.unpack(">BBBBIIII", parts.pop())
    payload = parts.pop() if flags & F_PAYLOAD else None
    topic = parts.pop().decode() if flags & F_TOPIC else None
    routes = parts[: parts.index(b"")] if flags & F_ROUTE else []
    return Message(kind, flags, userid, rolemask, aux, tag, topic, payload, routes)


def cut(buffer):
    """(frame's body or None, rest) of what came."""
    if len(buffer) < 8:
        return None, buffer
    if buffer[:4] != MAGIC:
        raise Lost(f"wrong magic {bytes(buffer[:4])!r}")
    size = struct.unpack(">I", buffer[4:8])[0]
    if len(buffer) < 8 + size:
        return None, buffer
    return bytes(buffer[8 : 8 + size]), buffer[8 + size :]


def to_payload(value):
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\0"


def of_payload(payload):
    """The object of a payload, which must end with NUL; {} for none."""
    if payload is None:
        return {}
    if payload[-1:] != b"\0":
        raise Lost(f"payload without final NUL: {payload[:80]!r}")
    return json.loads(payload[:-1])


def socket_path(uri=None):
    uri = uri or os.environ["WEIR_URI"]
    return uri[len("local://") :] if uri.startswith("local://") else uri


class Client:
    """One connection."""

    def __init__(self, uri=None, wait=TIMEOUT):
        self.path = socket_path(uri)
        deadline = time.monotonic() + wait
        while True:
            self.sock = socket.socket(socket.AF_UNIX)
            try:
                self.sock.connect(self.path)
                self.buffer = bytearray()
                self.fill(max(0.1, deadline - time.monotonic()))
                break
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, Lost):
                self.sock.close()
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)
        welcome = self.buffer.pop(0)
        if welcome:
            raise Refused("handshake", welcome, os.strerror(welcome))
        self.tag = 0
        self.seen = collections.defaultdict(collections.deque)
        self.requests = collections.deque()

    def close(self):
        self.sock.close()

    def fileno(self):
        return self.sock.fileno()

    # ---- frames

    def fill(self, timeout=TIMEOUT):
        """Waits for bytes."""
        ready, _, _ = select.select([self.sock], [], [], timeout)
        if not ready:
            raise TimeoutError(f"nothing from {self.path} within {timeout:.0f} s")
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Lost(f"{self.path} closed the connection")
        self.buffer += data

    def recv(self, timeout=TIMEOUT):
        """The next message, whatever it is."""
        deadline = time.monotonic() + timeout
        while True:
            body, self.buffer = cut(self.buffer)
            if body is not None:
                return parse(body)
            self.fill(max(0.0, deadline - time.monotonic()))

    def pending(self):
        """True if a message can be had without waiting for the other side."""
        while True:
            if len(self.buffer) >= 8 and len(self.buffer) >= 8 + struct.unpack(">I", self.buffer[4:8])[0]:
                return True
            if not select.select([self.sock], [], [], 0)[0]:
                return False
            self.fill(0)

    def send_frame(self, data):
        """Sends, and reads meanwhile: neither side may wait for the other for ever."""
        deadline = time.monotonic() + TIMEOUT
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select([self.sock], [self.sock], [], max(0, deadline - time.monotonic()))
            if not readable and not writable:
                raise TimeoutError(f"{self.path} does not read")
            if readable:
                self.fill(0)
            if writable:
                try:
                    view = view[self.sock.send(view, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError) as error:
                    raise Lost(str(error)) from error

    # ---- requests

    def send(self, topic, payload=None, streaming=False, noresponse=False, tag=None):
        """Sends a request; its matchtag."""
        if tag is None:
            self.tag += 1
            tag = self.tag
        flags = (F_STREAMING if streaming else 0) | (F_NORESPONSE if noresponse else 0)
        self.send_frame(frame(REQUEST, topic, to_payload(payload), flags, tag=0 if noresponse else tag))
        return tag

    def response(self, tag, timeout=TIMEOUT):
        """The next response with that matchtag; others are kept for those who ask for them, requests for `request`."""
        deadline = time.monotonic() + timeout
        while not self.seen[tag]:
            message = self.recv(max(0.0, deadline - time.monotonic()))
            if message.type == RESPONSE:
                self.seen[message.tag].append(message)
            elif message.type == REQUEST:
                self.requests.append(message)
        return self.seen[tag].popleft()

    def answer(self, tag, timeout=TIMEOUT):
        """The object of the next response with that matchtag."""
        message = self.response(tag, timeout)
        if message.aux:
            raise Refused(message.topic, message.aux, (message.payload or b"").rstrip(b"\0").decode() or os.strerror(message.aux))
        return of_payload(message.payload)

    def call(self, topic, payload=None, timeout=TIMEOUT):
        return self.answer(self.send(topic, payload), timeout)

    def stream(self, topic, payload=None, timeout=TIMEOUT):
        """The objects of a stream until it ends normally."""
        tag = self.send(topic, payload, streaming=True)
        while True:
            try:
                yield self.answer(tag, timeout)
            except Refused as end:
                if end.errnum == ENODATA:
                    return
                raise

    # ---- the service side

    def add_service(self, name, key=None):
        return self.call("service.add", {"service": name} | ({"key": key} if key else {}))

    def request(self, timeout=TIMEOUT):
        """The next request that came for a service of ours."""
        deadline = time.monotonic() + timeout
        while not self.requests:
            message = self.recv(max(0.0, deadline - time.monotonic()))
            if message.type == REQUEST:
                return message
            if message.type == RESPONSE:
                self.seen[message.tag].append(message)
        return self.requests.popleft()

    def respond(self, request, payload=None, errnum=0, text=None):
        data = to_payload(payload) if not errnum else (text.encode() + b"\0" if text else None)
        flags = request.flags & (F_STREAMING | F_UPSTREAM)
        self.send_frame(frame(RESPONSE, request.topic, data, flags, request.routes, aux=errnum, tag=request.tag))


# ---- what several tests need


def jobspec(command, cores=1, slots=1, duration=0, environment=None, cwd="/", **system):
    """A jobspec of `slots` tasks."""
    slot = {"type": "slot", "count": slots, "label": "task", "with": [{"type": "core", "count": cores}]}
    return {
        "resources": [slot],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": duration, "environment": environment or {}, "cwd": cwd, **system}},
        "version": 1,
    }


def wrap(spec):
    """A jobspec as job-ingest.submit takes it: unsigned."""
    header = f"version\0i1\0userid\0i{os.getuid()}\0mechanism\0snone\0".encode()
    return ".".join([base64.b64encode(header).decode(), base64.b64encode(json.dumps(spec).encode()).decode(), "none"])


def submission(command, urgency=16, flags=0, **options):
    """The payload of job-ingest.submit."""
    return {"J": wrap(jobspec(command, **options)), "urgency": urgency, "flags": flags}


def list_jobs(client, attrs=("all",), states=None, limit=0, **more):
    """All rows of job-list.list, in the order they came."""
    ask = {"max_entries": limit, "attrs": list(attrs), "since": 0.0, **more}
    if states is not None:
        ask["constraint"] = {"states": [states]}
    return [row for answer in client.stream("job-list.list", ask) for row in answer["jobs"]]


ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def f58(number, prefix="ƒ"):
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return prefix + (text or ALPHABET[0])


def parse_f58(text):
    number = 0
    for letter in text.strip()[1:]:
        number = number * 58 + ALPHABET.index(letter)
    return number


def until(what, condition, timeout=TIMEOUT, pause=0.02):
    """Waits until `condition()` is true and returns its value; fails by naming `what`. For what no stream tells of."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not within {timeout:.0f} s: {what}")
        time.sleep(pause)


def main():
    words = [word for word in sys.argv[1:] if word != "--stream"]
    payload = json.loads(words[1]) if len(words) > 1 else {}
    client = Client()
    answers = client.stream(words[0], payload) if "--stream" in sys.argv else [client.call(words[0], payload)]
    for answer in answers:
        print(json.dumps(answer, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (Refused, Lost, TimeoutError) as error:
        sys.exit(f"wire.py: {error}")
