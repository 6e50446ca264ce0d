"""A folder of files that are replaced together: by errors, by others' files, by processes that are killed."""

import json
import os
import subprocess
import sys

import pytest

from ragrounds.api.site_folder import MARK, site_folder
from ragrounds.errors import UserError

LAST = ("index.html",)


def publish(folder, force=False, **files):
    with site_folder(folder, LAST, force=force) as site:
        for name, text in files.items():
            with site.file(name.replace("_", ".")) as file:
                file.write(text.encode())


def read(folder):
    return {one.name: one.read_text() for one in folder.iterdir() if one.is_file() and one.name != MARK}


def test_a_second_call_replaces_all_and_removes_what_is_gone(tmp_path):
    publish(tmp_path / "site", index_html="1", old_html="1")
    publish(tmp_path / "site", index_html="2", new_html="2")
    assert read(tmp_path / "site") == {"index.html": "2", "new.html": "2"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_former_files_as_they_were(tmp_path, error):
    publish(tmp_path, index_html="1", page_html="1")

    def fail():
        with site_folder(tmp_path, LAST) as site:
            with site.file("index.html") as file:
                file.write(b"2")
            raise error

    with pytest.raises(error):
        fail()
    assert read(tmp_path) == {"index.html": "1", "page.html": "1"}
    with pytest.raises(ValueError, match="no"), site_folder(tmp_path / "new", LAST):
        raise ValueError("no")
    assert not (tmp_path / "new").exists()


def test_the_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match=r"did not make \(thesis\.tex\)"):
        publish(tmp_path, index_html="1")
    assert read(tmp_path) == {"thesis.tex": "mine"}
    publish(tmp_path, force=True, index_html="1")
    publish(tmp_path, index_html="2")
    assert read(tmp_path) == {"thesis.tex": "mine", "index.html": "2"}


def test_what_hosting_needs_may_lie_there(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "CNAME").write_text("example.org")
    publish(tmp_path, index_html="1")
    assert {one.name for one in tmp_path.iterdir()} == {".git", "CNAME", "index.html", MARK}


def test_a_file_that_is_not_ours_is_not_written_over(tmp_path):
    publish(tmp_path, index_html="2")
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(UserError, match=r"page.html is not of"):
        publish(tmp_path, index_html="3", page_html="3")
    assert read(tmp_path) == {"index.html": "2", "page.html": "mine"}


@pytest.mark.parametrize("name", ["../escaped", "/etc/passwd", "a/b", "", ".hidden"])
def test_a_list_of_files_that_leads_outside_is_refused(tmp_path, name):
    outside = tmp_path / "escaped"
    outside.write_text("mine")
    publish(tmp_path / "site", index_html="1")
    mark = json.loads((tmp_path / "site" / MARK).read_text())
    mark["files"].append(name)
    (tmp_path / "site" / MARK).write_text(json.dumps(mark))
    with pytest.raises(UserError, match="no name of a page"):
        publish(tmp_path / "site", index_html="2")
    assert outside.read_text() == "mine"


def test_what_a_killed_process_left_is_no_page(tmp_path):
    publish(tmp_path, index_html="1")
    (tmp_path / ".ragrounds-new").mkdir()
    (tmp_path / ".ragrounds-new" / "index.html").write_text("half")
    publish(tmp_path, page_html="2")
    assert read(tmp_path) == {"page.html": "2"}
    assert not (tmp_path / ".ragrounds-new").exists()


def test_two_at_once_are_refused(tmp_path):
    with site_folder(tmp_path, LAST) as site:
        with site.file("index.html") as file:
            file.write(b"1")
        with pytest.raises(UserError, match="Another `ragrounds publish`"):
            publish(tmp_path, index_html="2")
    assert read(tmp_path) == {"index.html": "1"}


DIES = """
import os, sys
from pathlib import Path
from ragrounds.api.site_folder import site_folder

left = int(sys.argv[2])
replace = Path.replace
def dying(source, target):
    global left
    if left == 0:
        os._exit(9)
    left -= 1
    return replace(source, target)
with site_folder(Path(sys.argv[1]), ("index.html",)) as site:
    for name in ("a.html", "b.html", "index.html"):
        with site.file(name) as file:
            file.write(b"new " * 2)
    Path.replace = dying
"""


@pytest.mark.parametrize("moves", [0, 1, 2, 3, 4])
def test_after_a_process_that_was_killed_while_it_moved_files_the_next_one_makes_all_again(tmp_path, moves):
    publish(tmp_path, index_html="old", a_html="old", c_html="old")
    done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path), str(moves)], env=os.environ, check=False)
    assert done.returncode == 9
    # Each file is whole, and the way in is replaced only when all that it leads to is there.
    found = read(tmp_path)
    assert set(found.values()) <= {"old", "new new "}
    assert "c.html" in found or found["index.html"] == "new new "
    if found["index.html"] == "new new ":
        assert found["a.html"] == found["b.html"] == "new new "
    publish(tmp_path, index_html="newest", a_html="newest")
    assert read(tmp_path) == {"index.html": "newest", "a.html": "newest"}
