"""The server of `ptd-ext review`: who may read and write, and what."""

import http.client
import json
import threading
from contextlib import contextmanager

import pytest
from label_issues.review.test_decision_file import entry

from ptd_ext.label_issues.review.server import ReviewServer

PAGE = "<!DOCTYPE html><title>page</title>"
PICTURE = "0" * 32 + ".png"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    inner = tmp_path / "labels"
    (inner / "report_pictures").mkdir(parents=True)
    (inner / "report.html").write_text(PAGE)
    (inner / "labels.csv").write_text("secret")
    (inner / "report_pictures" / PICTURE).write_bytes(b"picture")
    return inner


@contextmanager
def serving(folder):
    server = ReviewServer(folder, "report.html")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server(folder):
    with serving(folder) as running:
        yield running


def request(server, path, method="GET", body=None, token=None, **headers):
    """The status and the content; a header of None is left out."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    prefix = f"/{server.token if token is None else token}/"
    connection.putrequest(method, prefix + path, skip_host=True)
    named = {"Host": f"127.0.0.1:{server.server_port}", "Content-Type": "application/json"}
    content = (
        None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    )
    if content is not None:
        named["Content-Length"] = str(len(content))
    for name, value in (named | {k.replace("_", "-"): v for k, v in headers.items()}).items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(content)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def change(*entries, removed=()):
    return {"entries": list(entries), "removed": list(removed)}


def test_serves_the_page_its_pictures_and_its_decisions(server, folder):
    assert request(server, "?review") == (200, PAGE.encode())
    assert request(server, f"report_pictures/{PICTURE}") == (200, b"picture")
    assert request(server, "decisions") == (200, b"[]")
    assert request(server, "decisions", "POST", change(entry())) == (200, b'{"saved": 1}')
    assert json.loads(request(server, "decisions")[1]) == [entry()]
    assert "corrected,dog,Ann" in (folder / "decisions.csv").read_text()
    gone = change(removed=[["1", "Ann"]])
    assert request(server, "decisions", "POST", gone) == (200, b'{"saved": 0}')


def test_listens_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address.startswith("http://127.0.0.1:")
    assert len(server.token) >= 32


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["", "decisions", f"report_pictures/{PICTURE}"])
def test_nothing_without_the_token(server, folder, method, path):
    body = change(entry()) if method == "POST" else None
    for token in ("", "x", server.token[:-1], server.token + "x", server.token.swapcase()):
        assert request(server, path, method, body, token=token)[0] == 403
    assert not (folder / "decisions.csv").exists()


def test_a_path_without_a_token_has_no_file(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    for path in ("/", "/report.html", "*", "http://127.0.0.1/report.html", "//[", "/%"):
        connection.request("GET", path, headers={"Host": f"127.0.0.1:{server.server_port}"})
        answer = connection.getresponse()
        assert answer.status == 403
        assert b"page" not in answer.read()
        connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt", "....//secret.txt", "/etc/passwd",
        "labels.csv", "decisions.csv", "report.html", "report_pictures/", "report_pictures",
        "report_pictures/../labels.csv", "report_pictures/..%2flabels.csv", "./", "//",
        f"report_pictures/../report_pictures/{PICTURE}", f"other_pictures/{PICTURE}",
        f"report_pictures/{PICTURE}/..", "report_pictures/" + "1" * 32 + ".png", "..\\secret.txt",
        f"report_pictures/{PICTURE}%00", f"report_pictures\\{PICTURE}",
    ],
)  # fmt: skip
def test_nothing_else_is_read(server, path):
    status, content = request(server, path)
    assert status == 404
    assert b"secret" not in content


def test_no_link_leads_out_of_the_folder(folder, server):
    outside = folder.parent / "secret.txt"
    (folder / "report_pictures" / PICTURE).unlink()
    (folder / "report_pictures" / PICTURE).symlink_to(outside)
    assert request(server, f"report_pictures/{PICTURE}")[0] == 404
    (folder / "decisions.csv").symlink_to(outside)
    status, content = request(server, "decisions", "POST", change(entry()))
    assert status == 400
    assert b"must lie in" in content
    assert outside.read_text() == "secret"
    with pytest.raises(ValueError, match=r"decisions.csv must lie in"):
        ReviewServer(folder, "report.html")
    with pytest.raises(ValueError, match="must lie in"):
        ReviewServer(folder, "../secret.txt")


def test_other_sites_cannot_use_the_browser(server, folder):
    port = server.server_port
    sent = change(entry())
    for headers in (
        {"Host": "evil.example"}, {"Host": f"evil.example:{port}"}, {"Host": "127.0.0.1:1"},
        {"Host": None},
    ):  # fmt: skip
        assert request(server, "decisions", **headers)[0] == 421
        assert request(server, "decisions", "POST", sent, **headers)[0] == 421
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"https://127.0.0.1:{port}",
    ):
        assert request(server, "decisions", "POST", sent, Origin=origin)[0] == 403
        assert request(server, "decisions", Origin=origin)[0] == 403
    assert request(server, "decisions", "POST", sent, Sec_Fetch_Site="cross-site")[0] == 403
    assert request(server, "decisions", "POST", sent, Content_Type="text/plain")[0] == 415
    assert not (folder / "decisions.csv").exists()
    own = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
    assert request(server, "decisions", "POST", sent, **own)[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400), (b"[]", 400), (b'{"entries": []}', 400), (b"[" * 100_000, 400),
        ({"entries": {}, "removed": []}, 400), (change(entry(decision="x")), 400), (b"\xff", 400),
    ],
)  # fmt: skip
def test_a_request_that_is_not_one_writes_nothing(server, folder, body, status):
    assert request(server, "decisions", "POST", body)[0] == status
    assert not (folder / "decisions.csv").exists()


def test_a_body_must_have_a_length_within_the_limit(server):
    for length, status in ((None, 411), ("-1", 411), ("x", 411), (str(65 << 20), 413)):
        assert request(server, "decisions", "POST", b"{}", Content_Length=length)[0] == status
    assert request(server, "", "POST", change())[0] == 404
    assert request(server, "", "DELETE")[0] == 501


def test_a_full_disk_is_reported(server, monkeypatch):
    import os

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    status, content = request(server, "decisions", "POST", change(entry()))
    assert status == 507
    assert b"disk is full" in content


def test_requests_at_the_same_time_all_count(server, folder):
    def post(number):
        assert request(server, "decisions", "POST", change(entry(str(number))))[0] == 200

    threads = [threading.Thread(target=post, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((folder / "decisions.csv").read_text().splitlines()) == 13


def test_a_folder_without_a_page(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must hold report.html, a page of"):
        ReviewServer(tmp_path, "report.html")
