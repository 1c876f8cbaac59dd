import hashlib
import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from data_files import Server, lay_out, official, register
from multipartite.errors import InputError
from multipartite.experiments.data import load
from multipartite.experiments.data.catalogue import CATALOGUE
from multipartite.experiments.data.download import Resume, get
from multipartite.experiments.data.source import missing, read_checked

PAGE = bytes(range(256)) * 4000  # 1 MB


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def by_name(blobs):
    return {path.rpartition("/")[2]: blob for path, blob in blobs.items()}


def one_file(*mirrors, blob=PAGE):
    files = {"mnist/page.gz": hashlib.sha256(blob).hexdigest()}
    return replace(CATALOGUE["mnist"], files=files, mirrors=mirrors)


def leftovers(folder):
    return {p.name for p in folder.rglob("*") if p.is_file()} - {".lock"}


def test_a_missing_data_set_is_downloaded_on_loading(tmp_path, monkeypatch):
    blobs = official("mnist")
    with Server(by_name(blobs)) as server:
        register("mnist", blobs, monkeypatch, mirrors=(server.url,))
        assert len(load("mnist", tmp_path).train) == 40
        assert len(server.asked) == 4
        load("mnist", tmp_path)
        assert len(server.asked) == 4, "what is there is not asked for again"
    assert leftovers(tmp_path) == set(by_name(blobs))


def test_what_is_there_is_not_downloaded_again(tmp_path, monkeypatch):
    source = lay_out("mnist", tmp_path, monkeypatch)
    gone = "mnist/t10k-labels-idx1-ubyte.gz"
    blob = (tmp_path / gone).read_bytes()
    (tmp_path / gone).unlink()
    with Server({"t10k-labels-idx1-ubyte.gz": blob}) as server:
        assert get(replace(source, mirrors=(server.url,)), tmp_path) == [gone]
    assert missing(source, tmp_path) == []


def test_a_broken_connection_is_taken_up_where_it_broke(tmp_path):
    with Server({"page.gz": PAGE}, cuts=1) as server:
        get(one_file(server.url), tmp_path)
        (_, first), (_, second) = server.asked
    assert first is None
    assert second == f"bytes={len(PAGE) // 2}-"
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE
    assert leftovers(tmp_path) == {"page.gz"}


def test_a_second_call_goes_on_where_the_first_gave_up(tmp_path):
    part = tmp_path / "mnist" / "page.gz.part"
    part.parent.mkdir()
    part.write_bytes(PAGE[:1000])
    with Server({"page.gz": PAGE}) as server:
        get(one_file(server.url), tmp_path)
        assert server.asked == [("page.gz", "bytes=1000-")]
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


def test_a_part_is_kept_when_every_mirror_fails(tmp_path):
    part = tmp_path / "mnist" / "page.gz.part"
    part.parent.mkdir()
    part.write_bytes(PAGE[:1000])
    with Server({}) as server, pytest.raises(InputError, match="404 Not Found"):
        get(one_file(server.url), tmp_path)
    assert part.read_bytes() == PAGE[:1000]


def test_a_whole_part_is_not_downloaded_again(tmp_path):
    part = tmp_path / "mnist" / "page.gz.part"
    part.parent.mkdir()
    part.write_bytes(PAGE)
    with Server({"page.gz": PAGE}) as server:
        get(one_file(server.url), tmp_path)
        assert server.asked == [("page.gz", f"bytes={len(PAGE)}-")]
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


@pytest.mark.parametrize("begun", [b"something else" * 50, PAGE + b"more"])
def test_a_wrong_part_is_thrown_away_and_begun_anew(begun, tmp_path):
    part = tmp_path / "mnist" / "page.gz.part"
    part.parent.mkdir()
    part.write_bytes(begun)
    with Server({"page.gz": PAGE}) as server:
        get(one_file(server.url), tmp_path)
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


def test_a_server_without_ranges_sends_everything_again(tmp_path):
    part = tmp_path / "mnist" / "page.gz.part"
    part.parent.mkdir()
    part.write_bytes(PAGE[:1000])
    with Server({"page.gz": PAGE}, ranges=False) as server:
        get(one_file(server.url), tmp_path)
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


def test_a_server_that_sends_other_bytes_than_asked_for_is_passed_over(tmp_path):
    part = tmp_path / "mnist" / "page.gz.part"
    part.parent.mkdir()
    part.write_bytes(PAGE[:1000])
    with Server({"page.gz": PAGE}, shift=1) as first, Server({"page.gz": PAGE}) as second:
        get(one_file(first.url, second.url), tmp_path)
        assert second.asked == [("page.gz", "bytes=1000-")], "what came before is still good"
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


def test_a_full_disk_is_one_sentence(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/page.gz.part").symlink_to("/dev/full")
    with Server({"page.gz": PAGE}) as server, pytest.raises(InputError, match="No space left on device"):
        get(one_file(server.url), tmp_path)
    assert not (tmp_path / "mnist/page.gz").exists()


def test_a_server_that_never_gets_further_is_given_up(tmp_path):
    with Server({"page.gz": PAGE}, cuts=10**6, ranges=False) as server:
        with pytest.raises(InputError, match="could not be downloaded"):
            get(one_file(server.url), tmp_path)
        assert len(server.asked) == 2
    assert not (tmp_path / "mnist/page.gz").exists()


def test_attempts_are_bounded(tmp_path):
    with Server({"page.gz": PAGE}, cuts=10**6) as server:
        with pytest.raises(OSError, match=r"broke|incomplete|Incomplete"):
            Resume(tmp_path / "part", attempts=3)(server.url + "page.gz", str(tmp_path / "out"), None)
        assert len(server.asked) == 3


def test_mirrors_are_tried_in_order(tmp_path):
    with Server({}) as first, Server({"page.gz": PAGE}) as second, Server({"page.gz": PAGE}) as third:
        get(one_file(first.url, second.url, third.url), tmp_path)
        assert [len(server.asked) for server in (first, second, third)] == [1, 1, 0]
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


def test_a_mirror_with_an_altered_file_is_passed_over(tmp_path):
    with Server({"page.gz": PAGE[:-1] + b"!"}) as first, Server({"page.gz": PAGE}) as second:
        get(one_file(first.url, second.url), tmp_path)
    assert (tmp_path / "mnist/page.gz").read_bytes() == PAGE


def test_an_altered_file_is_never_kept(tmp_path):
    source = one_file("", blob=b"the right one")
    with Server({"page.gz": PAGE}) as server, pytest.raises(InputError) as error:
        get(replace(source, mirrors=(server.url,)), tmp_path)
    assert f"{server.url}page.gz: what came has not the SHA-256 {source.files['mnist/page.gz']}" in str(error.value)
    assert leftovers(tmp_path) == set()


def test_no_connection_is_one_sentence_that_names_every_mirror(tmp_path):
    with Server({}) as server:
        closed = server.url
    with pytest.raises(InputError) as error:
        get(one_file(closed, closed + "again/"), tmp_path)
    message = str(error.value)
    assert f"{closed}page.gz: no connection; {closed}again/page.gz: no connection" in message
    assert f"multipartite data get mnist --data-dir {tmp_path}" in message
    assert "\n" not in message


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "mnist").write_text("a file in the way")
    with Server({"page.gz": PAGE}) as server, pytest.raises(InputError, match=f"stored under {tmp_path}"):
        get(one_file(server.url), tmp_path)


def test_progress_is_quiet_without_a_terminal(tmp_path, capfd):
    with Server({"page.gz": PAGE}) as server:
        get(one_file(server.url), tmp_path)
    assert capfd.readouterr() == ("", "")


def test_progress_is_reported(tmp_path):
    seen = []
    with Server({"page.gz": PAGE}, cuts=1) as server:
        Resume(tmp_path / "part", lambda *now: seen.append(now))(server.url + "page.gz", str(tmp_path / "out"), None)
    assert seen[-1] == (len(PAGE), len(PAGE))
    assert {total for _, total in seen} == {len(PAGE)}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_two_at_once_download_a_file_once(tmp_path):
    with Server({"page.gz": PAGE}, delay=0.2) as server, ThreadPoolExecutor(2) as pool:
        came = [pool.submit(get, one_file(server.url), tmp_path) for _ in range(2)]
        assert sorted(future.result() for future in came) == [[], ["mnist/page.gz"]]
        assert len(server.asked) == 1


def archive(members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for member, content in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def cifar(server_pages, members, monkeypatch):
    blobs = official("cifar10")
    packed = archive(members(blobs))
    server_pages["cifar.tar.gz"] = packed
    return register("cifar10", blobs, monkeypatch, archive=("cifar.tar.gz", hashlib.sha256(packed).hexdigest()))


def inside(blobs):
    return [(path.partition("/")[2], blob) for path, blob in blobs.items()]


def test_an_archive_is_unpacked_and_removed(tmp_path, monkeypatch):
    pages = {}
    source = cifar(pages, lambda blobs: [("cifar-10-batches-bin/readme.html", b"x"), *inside(blobs)], monkeypatch)
    with Server(pages, cuts=1) as server:
        get(replace(source, mirrors=(server.url,)), tmp_path)
    assert leftovers(tmp_path) == {path.rpartition("/")[2] for path in source.files}
    assert len(load("cifar10", tmp_path).train) == 40


def test_an_archive_in_place_is_used_without_a_download(tmp_path, monkeypatch):
    pages = {}
    source = cifar(pages, inside, monkeypatch)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10/cifar.tar.gz").write_bytes(pages["cifar.tar.gz"])
    get(replace(source, mirrors=("http://127.0.0.1:1/",)), tmp_path)
    read_checked(source, tmp_path)


def test_an_archive_cannot_write_outside(tmp_path, monkeypatch):
    folder, outside = tmp_path / "data", tmp_path / "outside"
    outside.mkdir()

    def evil(blobs):
        return [
            ("../evil.bin", b"x"),
            (str(outside / "evil.bin"), b"x"),
            ("cifar-10-batches-bin/../../../evil.bin", b"x"),
            (link("cifar-10-batches-bin", str(outside)), b""),
            (link("cifar-10-batches-bin/test_batch.bin", str(outside / "victim")), b""),
            *inside(blobs),
        ]

    pages = {}
    source = cifar(pages, evil, monkeypatch)
    with Server(pages) as server:
        get(replace(source, mirrors=(server.url,)), folder)
    assert list(outside.iterdir()) == []
    assert leftovers(tmp_path) == {path.rpartition("/")[2] for path in source.files}
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))
    read_checked(source, folder)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (lambda blobs: inside(blobs)[:-1], "does not hold cifar-10-batches-bin/test_batch.bin"),
        (lambda blobs: [(n, b[:-1]) for n, b in inside(blobs)], "data_batch_1.bin in .* is altered: its SHA-256"),
        (lambda blobs: [*inside(blobs)[:-1], (link(inside(blobs)[-1][0], "/etc/passwd"), b"")], "does not hold"),
    ],
)
def test_a_wrong_archive_leaves_nothing_behind(members, message, tmp_path, monkeypatch):
    pages = {}
    source = cifar(pages, members, monkeypatch)
    with Server(pages) as server, pytest.raises(InputError, match=message):
        get(replace(source, mirrors=(server.url,)), tmp_path)
    assert leftovers(tmp_path) <= {"cifar.tar.gz"}


def test_a_file_of_the_user_survives_the_unpacking(tmp_path, monkeypatch):
    pages = {}
    source = cifar(pages, inside, monkeypatch)
    mine = tmp_path / "cifar10/cifar-10-batches-bin/test_batch.bin"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with Server(pages) as server:
        get(replace(source, mirrors=(server.url,)), tmp_path)
    assert mine.read_bytes() == b"mine"
    with pytest.raises(InputError, match="truncated or altered"):
        load("cifar10", tmp_path)
