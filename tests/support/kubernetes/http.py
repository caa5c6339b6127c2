"""The HTTP side of the API server in memory."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from .cluster import Cluster, Problem
from .kinds import BY_PATH, Kind, discovery
from .patching import MAGIC, from_protobuf

RESOURCE = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>status|scale|log))?"
)


class Server(ThreadingHTTPServer):
    """Serves one cluster on a port of loopback that was free."""

    daemon_threads = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.cluster = cluster
        self.stopping = False


class Request(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: Helm tells what went wrong."""

    def do_GET(self) -> None:
        """Read, list or watch."""
        self._answered()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _answered(self) -> None:
        try:
            self._answer()
        except Problem as problem:
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
            said = {"message": problem.message, "reason": problem.reason, "code": problem.status}
            self._say({**status, **said}, problem.status)

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
        cluster = self.server.cluster
        body = self._body()
        if self.command == "GET" and (told := discovery(parts.path, cluster.minor)) is not None:
            return self._say(told)
        found = RESOURCE.fullmatch(parts.path)
        kind = BY_PATH.get((found["core"] or found["group"], found["plural"])) if found else None
        if found is None or kind is None:
            raise Problem(404, "NotFound", f"the server could not find the requested resource {parts.path}")
        namespace, name, dry = found["namespace"], found["name"], "dryRun" in query
        match self.command:
            case "GET" if found["sub"] == "log":
                return self._text(cluster.logs.get((namespace, name), ""))
            case "GET" if query.get("watch") in ("true", "1"):
                return self._watch(kind, namespace, query)
            case "GET" if name:
                return self._say(cluster.get(kind, namespace, name))
            case "GET":
                items = cluster.listed(kind, namespace, query)
                version = {"resourceVersion": str(cluster.version)}
                return self._say(
                    {"kind": f"{kind.name}List", "apiVersion": kind.version, "metadata": version, "items": items}
                )
            case "POST":
                return self._say(cluster.create(kind, namespace, body, dry=dry), 201)
            case "PUT":
                return self._say(cluster.replace(kind, namespace, name, body, dry=dry))
            case "PATCH":
                how = self.headers["Content-Type"]
                force = query.get("force") == "true"
                return self._say(cluster.patch(kind, namespace, name, body, how, force=force, dry=dry))
        if not dry:
            cluster.delete(kind, namespace, name)
        self._say({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _body(self) -> Any:
        held = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if held.startswith(MAGIC):
            return from_protobuf(held) if self.command != "DELETE" else {}
        return (json.loads(held) if held[:1] in b"{[" else yaml.safe_load(held)) if held else {}

    def _say(self, said: Any, status: int = 200) -> None:
        self._send(json.dumps(said).encode(), "application/json", status)

    def _text(self, text: str) -> None:
        self._send(text.encode(), "text/plain", 200)

    def _send(self, body: bytes, content_type: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # -- watching ----------------------------------------------------------------------------------------------------

    def _watch(self, kind: Kind, namespace: str | None, query: dict[str, str]) -> None:
        cluster = self.server.cluster
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen = int(query.get("resourceVersion") or 0)
        try:
            if query.get("sendInitialEvents") == "true":
                with cluster.changed:
                    held, seen = cluster.listed(kind, namespace, query), cluster.version
                for each in held:
                    self._event("ADDED", each)
                end = {"resourceVersion": str(seen), "annotations": {"k8s.io/initial-events-end": "true"}}
                self._event("BOOKMARK", {"kind": kind.name, "apiVersion": kind.version, "metadata": end})
            while not self.server.stopping:
                with cluster.changed:
                    if not (news := cluster.since(seen, kind, namespace, query)):
                        cluster.changed.wait(0.5)
                for at, what, each in news:
                    self._event(what, each)
                    seen = at
        except OSError:
            self.close_connection = True  # the client has seen what it waited for

    def _event(self, what: str, held: dict[str, Any]) -> None:
        line = json.dumps({"type": what, "object": held}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()
