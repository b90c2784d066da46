"""A TCP proxy between a worker and a server that breaks connections, for the tests of broken links."""

import socket
import threading

BUFFER = 64 * 1024


class Connection:
    """One accepted connection and the one to the server that belongs to it."""

    def __init__(self, client, server):
        self.sockets = (client, server)
        self.swallow = False  # what the client sends is lost

    def cut(self):
        for end in self.sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone already


class Proxy:
    """Forwards connections to `address` ("host:port") from a port of its own.

    `cut_every`: after each so many bytes, both ways together, all connections are cut, in the middle of
    whatever they carry; 0: never.
    `on_accept`: called with the connections so far when there is a new one, before it carries anything.
    """

    def __init__(self, address, cut_every=0, on_accept=lambda connections: None):
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._cut_every, self._carried = cut_every, 0
        self._on_accept = on_accept
        self._lock = threading.Lock()
        self.connections = []  # in the order of their opening, those that are over too
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        self.cut()

    def cut(self):
        with self._lock:
            self.cuts += 1
            connections = list(self.connections)
        for connection in connections:
            connection.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(client, server)
            with self._lock:
                self.connections.append(connection)
            self._on_accept(self.connections)
            for way in (0, 1):
                threading.Thread(target=self._pump, args=(connection, way), daemon=True).start()

    def _pump(self, connection, way):
        source, target = connection.sockets[way], connection.sockets[1 - way]
        try:
            while data := source.recv(BUFFER):
                if connection.swallow and way == 0:
                    continue
                target.sendall(data)
                self._count(len(data))
        except OSError:
            pass
        connection.cut()

    def _count(self, size):
        with self._lock:
            self._carried += size
            due = self._cut_every > 0 and self._carried >= self._cut_every
            if due:
                self._carried = 0
        if due:
            self.cut()
