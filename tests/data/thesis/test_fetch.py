"""Downloads: from a server that answers as Zenodo does, from a hub cache in the true format."""

import hashlib
import json
import logging
import re
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants, errors

from lib.config import profiles
from lib.data.builders import fetch, thesis
from lib.data.written_once import SEAL
from lib.store.sealed import read_seal
from tests import thesis_files

httpx2 = pytest.importorskip("httpx2")  # what the hub's library asks with; no dependency of ours

TEXT = b"title,sections\n" + b"0123456789" * 300


class Zenodo(BaseHTTPRequestHandler):
    """The record 1, with the server's `files`; `sent` is what comes in their place.

    Ranges are served, unless `ranges` is off; bodies of files end at `cut`.
    """

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        host, files = f"http://{self.headers['Host']}", self.server.files
        if self.path == "/api/records/1":
            listed = []
            for name, content in files.items():
                entry = {"key": name, "size": len(content)}
                entry["checksum"] = f"md5:{hashlib.md5(content).hexdigest()}"
                entry["links"] = {"self": f"{host}/api/records/1/files/{name}/content"}
                listed.append(entry)
            return self.answer(200, json.dumps({"id": 1, "files": listed}).encode())
        name = re.fullmatch("/api/records/1/files/(.+)/content|/raw/(.+)", self.path)
        content = files.get(name[1] or name[2]) if name else None
        if content is None:
            return self.answer(404, b'{"status": 404}')
        content = self.server.sent.get(name[1], content)
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if not begin or not self.server.ranges:
            return self.answer(200, content, end=self.server.cut)
        if int(begin[1]) >= len(content):
            return self.answer(416, b"")
        span = {"Content-Range": f"bytes {begin[1]}-{len(content) - 1}/{len(content)}"}
        self.answer(206, content[int(begin[1]) :], span, end=self.server.cut)

    def answer(self, status, content, headers=(), end=None):
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content[:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def zenodo(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # tests are; this server is not far
    huggingface_hub.close_session()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Zenodo)
    server.files, server.sent, server.asked = {"wines.txt": TEXT}, {}, []
    server.ranges, server.cut = True, None
    options = {"kwargs": {"poll_interval": 0.01}, "daemon": True}
    threading.Thread(target=server.serve_forever, **options).start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.record = f"{server.url}/api/records/1"
    yield server
    server.shutdown()
    server.server_close()
    huggingface_hub.close_session()


@pytest.fixture
def root(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_a_record_is_downloaded_once_and_its_checksum_kept(zenodo, root):
    zenodo.files["gt"] = b"gold"
    sources = {"wines.txt": zenodo.record, "wines.gt": f"{zenodo.url}/raw/gt"}
    fetch.fetch_all(sources, root, root, 4)
    assert (root / "1/wines.txt").read_bytes() == TEXT
    assert (root / "wines.gt").read_bytes() == b"gold"
    assert read_seal(root / SEAL)["files"].keys() == {"1/wines.txt", "wines.gt"}
    sums = fetch.find_sums(root, ["wines.txt", "x"])
    assert sums == {"wines.txt": hashlib.sha256(TEXT).hexdigest(), "x": None}
    asked = len(zenodo.asked)
    fetch.fetch_all(sources, root, root, 4)
    assert len(zenodo.asked) == asked and not list(root.rglob("*.part"))


def test_a_half_download_goes_on(zenodo, root):
    (root / "1").mkdir()
    (root / "1/wines.txt.part").write_bytes(TEXT[:1000])
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert zenodo.asked[-1][1] == "bytes=1000-" and (root / "1/wines.txt").read_bytes() == TEXT


def test_a_server_that_begins_anew_gives_the_same_file(zenodo, root):
    zenodo.ranges = False
    (root / "1").mkdir()
    (root / "1/wines.txt.part").write_bytes(b"x" * 1000)
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert (root / "1/wines.txt").read_bytes() == TEXT


def test_what_is_cut_off_again_and_again_is_reported_and_kept(zenodo, root, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    zenodo.cut = 100
    told = r"missing: wines\.txt: expected in .*without sending complete"
    with pytest.raises(ValueError, match=told):
        fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert not (root / "1/wines.txt").exists()
    zenodo.cut = None
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert (root / "1/wines.txt").read_bytes() == TEXT


def test_a_wrong_checksum_is_refused_at_the_download(zenodo, root):
    zenodo.sent["wines.txt"] = b"!" * len(TEXT)
    with pytest.raises(ValueError, match=r"wines\.txt/content does not have the md5:\w{32} of"):
        fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert not list(root.rglob("wines.txt*"))


def test_another_content_than_was_first_read_is_refused(root):
    """Also after another file was read, whose sum joins the first one's."""
    wines = root / "by hand/wines.txt"
    wines.parent.mkdir()
    wines.write_bytes(TEXT)
    assert fetch.fetch_file(root, "wines.txt", "https://x") == wines
    wines.write_bytes(TEXT + b"!")
    (root / "games.txt").write_bytes(TEXT)
    fetch.fetch_file(root, "games.txt", "https://x")
    told = r"wines\.txt: its sha256 is \w{64}, but .*seal\.json says \w{64}; delete the file"
    with pytest.raises(ValueError, match=told):
        fetch.fetch_file(root, "wines.txt", "https://x")
    (root / SEAL).write_text("{}")
    with pytest.raises(ValueError, match=r"seal\.json: expected .*; delete it"):
        fetch.fetch_file(root, "wines.txt", "https://x")


def test_an_archive_is_unpacked(zenodo, root, tmp_path):
    (tmp_path / "in/benchmark").mkdir(parents=True)
    (tmp_path / "in/benchmark/dev_cite.csv").write_text("1,a,b\n")
    shutil.make_archive(tmp_path / "a", "zip", tmp_path / "in")
    zenodo.files = {"benchmark.zip": (tmp_path / "a.zip").read_bytes()}
    fetch.fetch_all({"dev_cite.csv": zenodo.record}, root, root, 4)
    path = fetch.fetch_file(root, "dev_cite.csv", zenodo.record)
    assert path == root / "1/benchmark/dev_cite.csv"


def test_without_network_every_missing_thing_has_a_line(root, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    build = profiles.load("thesis").build
    sources = thesis.list_sources(build)
    with pytest.raises(ValueError) as caught:
        fetch.fetch_all(sources, root, root, 4)
    missing = str(caught.value).splitlines()
    assert all(line.startswith("missing: ") for line in missing)
    records, files, places = 3, 2, 2 + 5
    assert len(missing) == records + files + places and len(sources) == 14 + files + places
    (pairs,) = (line for line in missing if "https://zenodo.org/records/4361695 (" in line)
    names = {name for task in thesis.PAIRS for name in build.tasks[task]}
    assert {*pairs.split(": ")[1].split(", ")} == names, "one line a record"
    assert not [path for path in root.rglob("*") if path.suffix != ".part"]


@pytest.mark.parametrize("answers", [False, True])
def test_an_unreachable_hub_is_asked_once_and_its_library_is_quiet(
    root, tmp_path, monkeypatch, answers
):
    """One place that it refuses says nothing of the others; no connection does, for a build."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    asked, logger = [], logging.getLogger("huggingface_hub")

    def fail(_, repo_id, **__):
        asked.append(logger.isEnabledFor(logging.WARNING))
        if answers:
            response = httpx2.Response(403, request=httpx2.Request("GET", "http://hub"))
            raise errors.HfHubHTTPError("a gated place", response=response)
        raise httpx2.ConnectError("no route to host")

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_tree", fail)
    places = [f"hf://{name}@{'1' * 40}/*.json" for name in ("a/b", "c/d", "e/f")]
    reason, tries = ("a gated place", 6) if answers else ("(no route to host)", 1)
    for build in (1, 2):
        with pytest.raises(ValueError) as caught:
            fetch.fetch_all({place: place for place in places}, root, root, 4)
        assert len(asked) == build * tries and str(caught.value).count(reason) == 3
    assert not any(asked)


def test_a_full_disk_is_reported_before_anything_comes(zenodo, root, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * len(TEXT) - 1))
    with pytest.raises(OSError, match=": 0 MB are needed, 0 MB are free"):
        fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert not list(root.iterdir()) and len(zenodo.asked) == 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * len(TEXT)))
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)


PLACE = f"hf://datasets/a/b@{'1' * 40}/data/*.parquet"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    files = {f"data/train-0000{part}-of-00002.parquet": b"PAR1" * (part + 1) for part in range(2)}
    thesis_files.put(folder, "datasets", "a/b", "1" * 40, {**files, "README.md": b"words"})
    return folder


def test_damaged_files_of_the_hubs_cache_are_refused_by_their_names(cache):
    """A large file is named by its SHA-256, a small one as git would name it."""
    files = fetch.fetch_hub(PLACE)
    assert [path.name[:11] for path in files] == ["train-00000", "train-00001"]
    readme = PLACE.replace("data/*.parquet", "README.md")
    small = fetch.fetch_hub(readme)[0].resolve()
    for place, blob, kind in ((PLACE, files[0].resolve(), "sha256"), (readme, small, "git_sha1")):
        blob.write_bytes(b"sword")
        with pytest.raises(ValueError, match=rf"the {kind} of {blob} is \w+; delete the file"):
            fetch.fetch_hub(place)


def test_a_cache_copied_without_links_is_taken_with_a_warning(cache):
    for path in fetch.fetch_hub(PLACE):
        path.resolve().replace(path)
    with pytest.warns(UserWarning, match="hub: files without a checksum as name, as copied lin"):
        assert len(fetch.fetch_hub(PLACE)) == 2


@pytest.mark.parametrize("listed", [True, False])
def test_half_a_set_is_refused(cache, listed):
    """By the list of files in the cache, which older libraries did not write, or by names."""
    fetch.fetch_hub(PLACE)[1].unlink()
    (listing,) = cache.glob("*/trees/*.json")
    if not listed:
        listing.unlink()
        sys.modules["huggingface_hub._tree_cache"]._IN_MEMORY_TREE_CACHE.clear()
    told = "missing: .*: build where" if listed else "1 of 2 files are there; build"
    with pytest.raises(ValueError, match=told):
        fetch.fetch_hub(PLACE)


def test_a_commit_that_the_hub_has_no_more_is_one_line(cache, monkeypatch):
    def refuse(*_, **__):
        response = httpx2.Response(404, request=httpx2.Request("GET", "http://hub"))
        raise errors.RevisionNotFoundError("no such commit", response=response)

    monkeypatch.setattr(fetch, "snapshot_download", refuse)
    with pytest.raises(ValueError, match="the hub no longer has this commit; name another"):
        fetch.fetch_hub(PLACE)
