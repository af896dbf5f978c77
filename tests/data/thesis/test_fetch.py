"""Downloads of the thesis' files: from a server that answers as Zenodo does, from a hub cache in the true format."""

import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants, errors

from lib.config import paths, profiles
from lib.data.builders import fetch, thesis
from lib.data.written_once import SEAL
from lib.store.sealed import read_seal
from tests import thesis_files

httpx2 = pytest.importorskip("httpx2")  # what the hub's library asks with; no dependency of ours

TEXT = b"title,sections\n" + b"0123456789" * 300


class Zenodo(BaseHTTPRequestHandler):
    """The record 1, with the files of `files`; ranges are served, unless `ranges` is off; a body ends at `cut`."""

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
        content = self.server.sent.get(name[1], content)
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if begin and self.server.ranges:
            if int(begin[1]) >= len(content):
                return self.answer(416, b"")
            span = f"bytes {begin[1]}-{len(content) - 1}/{len(content)}"
            return self.answer(206, content[int(begin[1]) :], {"Content-Range": span})
        self.answer(200, content)

    def answer(self, status, content, headers=()):
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **dict(headers)}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(
            content[: self.server.cut] if status in (200, 206) and b"{" not in content else content
        )

    def log_message(self, *_):
        pass


@pytest.fixture
def zenodo(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(
        constants, "HF_HUB_OFFLINE", False
    )  # the tests are offline; this server is not far
    huggingface_hub.close_session()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Zenodo)
    server.files, server.sent, server.asked, server.ranges, server.cut = (
        {"wines.txt": TEXT},
        {},
        [],
        True,
        None,
    )
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
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
    assert fetch.find_sums(root, ["wines.txt", "x"]) == {
        "wines.txt": hashlib.sha256(TEXT).hexdigest(),
        "x": None,
    }
    asked = len(zenodo.asked)
    fetch.fetch_all(sources, root, root, 4)
    assert len(zenodo.asked) == asked and not list(root.rglob("*.part"))


def test_a_half_download_goes_on(zenodo, root):
    (root / "1").mkdir()
    (root / "1" / "wines.txt.part").write_bytes(TEXT[:1000])
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert zenodo.asked[-1][1] == "bytes=1000-" and (root / "1" / "wines.txt").read_bytes() == TEXT


def test_a_server_that_begins_anew_gives_the_same_file(zenodo, root):
    zenodo.ranges = False
    (root / "1").mkdir()
    (root / "1" / "wines.txt.part").write_bytes(b"x" * 1000)
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert (root / "1" / "wines.txt").read_bytes() == TEXT


def test_what_is_cut_off_again_and_again_is_told_and_kept(zenodo, root, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    logger, tries = fetch.file_download.logger, []
    monkeypatch.setattr(
        logger, "warning", lambda *_: tries.append(logger.isEnabledFor(logging.WARNING))
    )
    zenodo.cut = 100
    with pytest.raises(
        ValueError, match=r"missing: wines\.txt: expected in .*without sending complete"
    ):
        fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert tries and not any(tries), "one line tells it"
    assert not (root / "1" / "wines.txt").exists()
    zenodo.cut = None
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert (root / "1" / "wines.txt").read_bytes() == TEXT


def test_a_wrong_checksum_is_refused_at_the_download(zenodo, root):
    zenodo.sent["wines.txt"] = b"!" * len(TEXT)
    with pytest.raises(
        ValueError, match=r"wines\.txt/content has not the md5:[0-9a-f]{32} of its record"
    ):
        fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert not list(root.rglob("wines.txt*"))


def test_another_content_than_was_first_read_is_refused(root):
    """Also after another file was read, whose sum joins the first one's."""
    (root / "by hand").mkdir()
    wines = root / "by hand/wines.txt"
    wines.write_bytes(TEXT)
    assert fetch.fetch_file(root, "wines.txt", "https://x") == wines
    wines.write_bytes(TEXT + b"!")
    (root / "games.txt").write_bytes(TEXT)
    fetch.fetch_file(root, "games.txt", "https://x")
    with pytest.raises(
        ValueError, match=r"wines\.txt: its sha256 is \w{64}, .*seal\.json says \w{64}; del"
    ):
        fetch.fetch_file(root, "wines.txt", "https://x")
    (root / SEAL).write_text("{}")
    with pytest.raises(ValueError, match=r"seal\.json: expected .*; delete it"):
        fetch.fetch_file(root, "wines.txt", "https://x")


def test_an_archive_is_unpacked(zenodo, root, tmp_path):
    (tmp_path / "in" / "benchmark").mkdir(parents=True)
    (tmp_path / "in" / "benchmark" / "dev_cite.csv").write_text("1,a,b\n")
    zenodo.files = {
        "benchmark.zip": open(
            shutil.make_archive(tmp_path / "a", "zip", tmp_path / "in"), "rb"
        ).read()
    }
    fetch.fetch_all({"dev_cite.csv": zenodo.record}, root, root, 4)
    assert (
        fetch.fetch_file(root, "dev_cite.csv", zenodo.record)
        == root / "1" / "benchmark" / "dev_cite.csv"
    )


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
    told = f"missing: wines.txt: expected in {root}, from https://zenodo.org/records/4812960 ("
    assert [line for line in missing if line.startswith(told)]
    (pairs,) = (line for line in missing if "https://zenodo.org/records/4361695 (" in line)
    names = {name for task in thesis.PAIRS for name in build.tasks[task]}
    assert {*pairs.split(": ")[1].split(", ")} == names, "one line a record"
    told = f"missing: {build.news[0]}: build where there is a network"
    assert [line for line in missing if line.startswith(told)]
    assert not [path for path in root.rglob("*") if path.suffix != ".part"]


@pytest.mark.parametrize("answers", [False, True])
def test_a_hub_that_cannot_be_reached_is_asked_once_and_its_library_is_quiet(
    root, tmp_path, monkeypatch, answers
):
    """One place that the hub refuses says nothing of the others; no connection does, until the next build."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    asked, logger = [], logging.getLogger("huggingface_hub")
    before = logger.level

    def fail(_, repo_id, **__):
        asked.append((repo_id, logger.isEnabledFor(logging.WARNING)))
        if answers:
            response = httpx2.Response(403, request=httpx2.Request("GET", "http://hub"))
            raise errors.HfHubHTTPError("a gated place", response=response)
        raise httpx2.ConnectError("no route to host")

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_tree", fail)
    places = [f"hf://{name}@{'1' * 40}/*.json" for name in ("a/b", "c/d", "e/f")]
    for build in (1, 2):
        with pytest.raises(ValueError) as caught:
            fetch.fetch_all({place: place for place in places}, root, root, 4)
        assert len(asked) == build * (6 if answers else 1), (
            "first for the sizes, then for the files"
        )
        if answers:
            assert str(caught.value).count("a gated place") == 3
        else:
            assert (
                str(caught.value).count("\n") == 2
                and str(caught.value).count("(no route to host)") == 3
            )
    assert not any(loud for _, loud in asked) and logger.level == before


def test_a_full_disk_is_told_before_anything_comes(zenodo, root, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * len(TEXT) - 1))
    with pytest.raises(ValueError, match=r": 0\.0 GB are needed on its disk, 0\.0 GB are free"):
        fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)
    assert not list(root.iterdir()) and len(zenodo.asked) == 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * len(TEXT)))
    fetch.fetch_all({"wines.txt": zenodo.record}, root, root, 4)


PLACE = "hf://datasets/a/b@" + "1" * 40 + "/data/*.parquet"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    files = {f"data/train-0000{part}-of-00002.parquet": b"PAR1" * (part + 1) for part in range(2)}
    thesis_files.put(folder, "datasets", "a/b", "1" * 40, files)
    return folder


def test_files_of_the_hubs_cache(cache):
    assert [path.name[:11] for path in fetch.fetch_hub(PLACE)] == ["train-00000", "train-00001"]


def test_a_damaged_blob_is_refused_by_its_checksum(cache):
    path = fetch.fetch_hub(PLACE)[0].resolve()
    path.write_bytes(b"PAR0")
    with pytest.raises(
        ValueError, match=rf"parquet: the sha256 of {path} is [0-9a-f]{{64}}; delete the file"
    ):
        fetch.fetch_hub(PLACE)


def test_a_small_blob_is_compared_with_the_name_that_git_gives_it(cache):
    place = "hf://datasets/a/b@" + "1" * 40 + "/README.md"
    thesis_files.put(cache, "datasets", "a/b", "1" * 40, {"README.md": b"words"})
    blob = fetch.fetch_hub(place)[0].resolve()
    git = subprocess.run(["git", "hash-object", blob], capture_output=True, text=True, check=True)
    assert blob.name == git.stdout.strip()
    blob.write_bytes(b"sword")
    with pytest.raises(
        ValueError, match=rf"README\.md: the git_sha1 of {blob} is [0-9a-f]{{40}}; delete the file"
    ):
        fetch.fetch_hub(place)


def test_a_cache_copied_without_links_is_taken_with_a_warning(cache, recwarn):
    for path in fetch.fetch_hub(PLACE):
        path.resolve().replace(path)
    assert not recwarn.list
    with pytest.warns(
        UserWarning,
        match="hub: files without a checksum as name, as copied links, are not verified",
    ):
        assert len(fetch.fetch_hub(PLACE)) == 2


@pytest.mark.parametrize("listed", [True, False])
def test_half_a_set_is_refused(cache, listed):
    """By the list of files in the cache; a cache without, as older libraries left it, by the number in the names."""
    fetch.fetch_hub(PLACE)[1].unlink()
    (listing,) = cache.glob("*/trees/*.json")
    if not listed:
        listing.unlink()
        sys.modules["huggingface_hub._tree_cache"]._IN_MEMORY_TREE_CACHE.clear()
    with pytest.raises(
        ValueError, match="missing: .*: build where" if listed else "1 of 2 files are there; build"
    ):
        fetch.fetch_hub(PLACE)


def test_a_moved_revision_is_one_line(zenodo, tmp_path):
    """The hub answers a commit that it does not have with an error code of its own."""

    def answer(self):
        self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})

    zenodo.RequestHandlerClass = type("Hub", (Zenodo,), {"do_GET": answer, "do_HEAD": answer})
    environment = {
        **os.environ,
        "HF_ENDPOINT": zenodo.url,
        "HF_HOME": str(tmp_path),
        "PYTHONPATH": str(paths.ROOT),
    }
    environment |= {"THESIS_DATA": str(tmp_path / "data"), "HF_HUB_OFFLINE": "0"}
    code = f"from lib.data.builders import fetch; fetch.fetch_hub({PLACE!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    told = f"ValueError: {PLACE}: the hub has no such commit any more; name another in its place"
    assert done.stderr.strip().endswith(told)
