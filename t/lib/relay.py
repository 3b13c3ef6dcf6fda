"""A go-between for a Unix socket that can hold, cut, swallow or change frames either way.

    relay = Relay("relay.socket", target); relay.uri
    relay.hold("up") / relay.release("up")      "up" is from the connecting side to the target
    relay.on_frame = lambda way, message, raw: [raw]     the frames to send instead; called in a thread of its own per way
    relay.cut()                                 ends every connection
"""
import os
import socket
import threading

import wire


class Relay:
    def __init__(self, path, target):
        self.path, self.target = os.path.abspath(path), wire.socket_path(target)
        self.uri = f"local://{self.path}"
        self.open = {"up": threading.Event(), "down": threading.Event()}
        for way in self.open.values():
            way.set()
        self.on_frame = None
        self.connections = 0
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.target)
            except OSError:
                near.close()
                far.close()
                continue
            with self.lock:
                self.connections += 1
                self.pairs.append((near, far))
            for way, source, sink in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self.pump, args=(way, source, sink), daemon=True).start()

    def pump(self, way, source, sink):
        try:
            self.carry(way, source, sink)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.lock:
            self.pairs = [pair for pair in self.pairs if source not in pair]

    def carry(self, way, source, sink):
        """What comes that way goes on, until the connection is to end."""
        buffer, welcomed = bytearray(), way == "up"
        while data := source.recv(1 << 18):
            buffer += data
            if not welcomed:
                sink.sendall(bytes([buffer.pop(0)]))
                welcomed = True
            while True:
                body, rest = wire.cut(buffer)
                if body is None:
                    break
                raw = bytes(buffer[: 8 + len(body)])
                buffer = rest
                self.open[way].wait()
                change = self.on_frame
                for out in change(way, wire.parse(body), raw) if change else [raw]:
                    self.open[way].wait()
                    sink.sendall(out)

    def hold(self, way):
        self.open[way].clear()

    def release(self, way):
        self.open[way].set()

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for one in pair:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()
        for way in self.open.values():
            way.set()
        self.cut()
        os.unlink(self.path)
