"""Downloads: from a server that answers as Zenodo does, from a hub cache in the true format."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import huggingface_hub
import pytest
from huggingface_hub import constants

from lib.config import profiles
from lib.data.builders import fetch, thesis
from tests import thesis_files

TEXT = b"title,sections\n" + b"0123456789" * 300


class Zenodo(BaseHTTPRequestHandler):
    """The record 1, with the server's `files`; bodies are what `send` makes of them."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        host, files = f"http://{self.headers['Host']}", self.server.files
        if self.path == "/api/records/1":
            listed = [
                {
                    "key": name,
                    "size": len(content),
                    "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
                    "links": {"self": f"{host}/api/records/1/files/{name}/content"},
                }
                for name, content in files.items()
            ]
            return self.answer(200, json.dumps({"id": 1, "files": listed}).encode())
        name = re.fullmatch("/api/records/1/files/(.+)/content|/raw/(.+)", self.path)
        content = files.get(name[1] or name[2]) if name else None
        if content is None:
            return self.answer(404, b'{"status": 404}')
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if not begin:
            return self.answer(200, content)
        span = {"Content-Range": f"bytes {begin[1]}-{len(content) - 1}/{len(content)}"}
        self.answer(206, content[int(begin[1]) :], span)

    def answer(self, status, content, headers=()):
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(self.server.send(content) if status != 404 else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def zenodo(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # tests are; this server is not far
    huggingface_hub.close_session()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Zenodo)
    server.files, server.asked, server.send = {"wines.txt": TEXT}, [], bytes
    options = {"kwargs": {"poll_interval": 0.01}, "daemon": True}
    threading.Thread(target=server.serve_forever, **options).start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.record = f"{server.url}/api/records/1"
    yield server
    server.shutdown()
    server.server_close()
    huggingface_hub.close_session()


def test_a_record_is_downloaded_once(zenodo, tmp_path):
    zenodo.files["gt"] = b"gold"
    sources = {"wines.txt": zenodo.record, "wines.gt": f"{zenodo.url}/raw/gt"}
    for _ in range(2):
        fetch.fetch_all(sources, tmp_path)
        assert (tmp_path / "1/wines.txt").read_bytes() == TEXT
        assert (tmp_path / "wines.gt").read_bytes() == b"gold"
        asked = [path for path, _ in zenodo.asked]
        assert len({*asked}) == len(asked) == 4, "the record, its two files, the gold list"
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("damage", [lambda body: b"!" * len(body), lambda body: body[:100]])
def test_what_comes_damaged_or_cut_off_is_never_taken(zenodo, tmp_path, monkeypatch, damage):
    monkeypatch.setattr("time.sleep", lambda _: None)
    zenodo.send = lambda body: body if body.startswith(b"{") else damage(body)
    with pytest.raises(ValueError, match=r"^missing: wines\.txt: expected in .*") as error:
        fetch.fetch_all({"wines.txt": zenodo.record}, tmp_path)
    assert "\n" not in str(error.value) and not list(tmp_path.rglob("wines.txt"))
    zenodo.send = bytes
    assert fetch.fetch_file(tmp_path, "wines.txt", zenodo.record).read_bytes() == TEXT


def test_without_network_every_missing_thing_has_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    sources = thesis.list_sources(profiles.load("thesis").build)
    with pytest.raises(ValueError) as caught:
        fetch.fetch_all(sources, tmp_path)
    missing = str(caught.value).splitlines()
    assert len(missing) == len(sources) == 14 + 2 + 2 + 5, "of records, gold lists, the hub"
    for line, name in zip(missing, sources, strict=True):
        assert line.startswith(f"missing: {name}: ")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".part"]


def test_half_a_set_of_the_hub_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    place = f"hf://datasets/a/b@{'1' * 40}/data/*.parquet"
    files = {f"data/train-0000{part}-of-00002.parquet": b"PAR1" * (part + 1) for part in range(2)}
    thesis_files.put(tmp_path / "hub", "datasets", "a/b", "1" * 40, files)
    found = fetch.fetch_hub(place)
    assert [path.name[:11] for path in found] == ["train-00000", "train-00001"]
    monkeypatch.setattr(fetch, "snapshot_download", lambda *_, **__: found[0].parents[1])
    found[1].unlink()  # as in a cache of an older library, which has no list of files
    with pytest.raises(ValueError, match="missing: .*: 1 of 2 files are there; build again"):
        fetch.fetch_hub(place)
