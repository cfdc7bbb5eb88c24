"""A local server for the page: it serves one page and its pictures, and writes its decisions.

It listens on 127.0.0.1 only. Every path begins with a secret token, so that other users of the
machine and other pages in the browser cannot guess it; the headers Host and Origin are checked, so
that no other site can send requests in the name of the browser. No path of a request is joined to
a folder: only the page, its decisions and pictures of known form have an address.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ptd_ext.label_issues.report.pictures import pictures_folder
from ptd_ext.label_issues.review.decision_file import DecisionFile

DECISIONS = "decisions.csv"
_MAX_BODY = 64 << 20  # bytes; a request may import a large file
_SECONDS = 10  # that a connection may stay silent
_PICTURE = re.compile(r"[0-9a-f]{32}\.png")
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ReviewServer(ThreadingHTTPServer):
    """Serves the page of a folder until `shutdown`.

    Args:
        folder: folder of the page; the decisions are written to `decisions.csv` in it.
        page: file name of the page.
        port: port; 0 for any that is free.
    """

    daemon_threads = False  # closing waits for a decision that is being written

    def __init__(self, folder: Path, page: str, port: int = 0) -> None:
        self.folder = folder.resolve()
        self.page = inside(self.folder, self.folder / page)
        if not self.page.is_file():
            raise FileNotFoundError(
                f"{folder} must hold {page}, a page of LabelIssues.report or ptd-ext labels."
            )
        self.decisions = DecisionFile(inside(self.folder, self.folder / DECISIONS))
        self.token = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print errors, but not over connections that the browser closed."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/?review"


def inside(folder: Path, path: Path) -> Path:
    """Return the path with its links resolved; raises ValueError if it leaves the folder."""
    resolved = path.resolve()
    if not resolved.is_relative_to(folder):
        raise ValueError(f"{path} must lie in {folder}; it leads to {resolved}.")
    return resolved


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    timeout = _SECONDS
    server_version, sys_version = "ptd-ext", ""

    def do_GET(self) -> None:
        name = self._name()
        if name is None:
            return
        pictures = pictures_folder(self.server.page).name
        if name == "":
            self._send_file(self.server.page, "text/html; charset=utf-8")
        elif name == "decisions":
            try:
                self._send_json(HTTPStatus.OK, self.server.decisions.entries())
            except ValueError as error:
                self._send_json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})
        elif name.startswith(f"{pictures}/") and _PICTURE.fullmatch(name[len(pictures) + 1 :]):
            self._send_file(self.server.folder / name, "image/png")
        else:
            self._reject(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        name = self._name()
        if name is None:
            return
        if name != "decisions":
            self._reject(HTTPStatus.NOT_FOUND)
        elif self.headers.get("Content-Type") != "application/json":
            self._reject(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        else:
            self._change()

    def _change(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,12}", length):
            self._reject(HTTPStatus.LENGTH_REQUIRED)
            return
        if int(length) > _MAX_BODY:
            self._reject(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            change = json.loads(self.rfile.read(int(length)))
            if not (
                isinstance(change, dict)
                and set(change) == {"entries", "removed"}
                and all(isinstance(each, list) for each in change.values())
            ):
                raise ValueError("A request must have the lists entries and removed.")
            inside(self.server.folder, self.server.folder / DECISIONS)
            count = self.server.decisions.change(change["entries"], change["removed"])
        except (ValueError, RecursionError) as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except OSError as error:
            self._send_json(HTTPStatus.INSUFFICIENT_STORAGE, {"error": str(error)})
        else:
            self._send_json(HTTPStatus.OK, {"saved": count})

    def _name(self) -> str | None:
        """What follows the token in the path; None, with an error sent, if anything is wrong."""
        hosts = [f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")]
        origins = {None, *(f"http://{host}" for host in hosts)}
        crossing = self.headers.get("Sec-Fetch-Site") == "cross-site" and self.command != "GET"
        parts = self.path.partition("?")[0].split("/", 2)
        if self.headers.get_all("Host") not in [[host] for host in hosts]:
            self._reject(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.headers.get("Origin") not in origins or crossing or not self._has_token(parts):
            self._reject(HTTPStatus.FORBIDDEN)
        else:
            return parts[2]
        return None

    def _has_token(self, parts: list[str]) -> bool:
        token = parts[1] if len(parts) == 3 and not parts[0] else ""
        return hmac.compare_digest(token.encode(), self.server.token.encode())

    def _send_file(self, path: Path, kind: str) -> None:
        try:
            content = inside(self.server.folder, path).read_bytes()
        except (OSError, ValueError):
            self._reject(HTTPStatus.NOT_FOUND)
            return
        self._send(HTTPStatus.OK, content, kind)

    def _send_json(self, status: HTTPStatus, value: Any) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _reject(self, status: HTTPStatus) -> None:
        self._send(status, f"{status.value} {status.phrase}\n".encode(), "text/plain")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the addresses hold the token."""
