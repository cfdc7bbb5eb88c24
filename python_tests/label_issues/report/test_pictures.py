"""Where the pictures of a page are stored."""

import os
import warnings

import numpy as np
import pytest
from label_issues.report.page_scripts import READY
from label_issues.report.report_cases import findings

from ptd_ext.label_issues.report import Sample, pictures, write_report
from ptd_ext.label_issues.report.pictures import Pictures, pictures_folder
from ptd_ext.utils.png import data_url, heat_picture


def png(level):
    return heat_picture(np.full((8, 8), level / 100))


def collected(page, count, limit):
    contents, collecting = [{} for _ in range(count)], Pictures(page, limit)
    for i, content in enumerate(contents):
        collecting.add(content, png(i))
    collecting.finish()
    collecting.remove_others()
    return [content["picture"] for content in contents]


def test_few_pictures_are_in_the_page(tmp_path):
    found = collected(tmp_path / "page.html", 5, 1 << 20)
    assert found == [data_url(png(i)) for i in range(5)]
    assert not Pictures(tmp_path / "page.html").beside
    assert os.listdir(tmp_path) == []


def test_many_pictures_are_in_a_folder_and_a_warning_names_it(tmp_path):
    page = tmp_path / "page.html"
    with pytest.warns(UserWarning, match=r"more than 0 MB.*page_pictures beside it: keep"):
        found = collected(page, 5, 3 * 4 * len(png(1)) // 3)
    assert pictures_folder(page) == tmp_path / "page_pictures"
    assert [(tmp_path / name).read_bytes() for name in found] == [png(i) for i in range(5)]
    assert len(os.listdir(tmp_path / "page_pictures")) == 5


def test_the_warning_comes_once_and_equal_pictures_are_written_once(tmp_path):
    collecting = Pictures(tmp_path / "page.html", 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            collecting.add({}, png(1))
    assert len(said) == 1
    assert len(os.listdir(tmp_path / "page_pictures")) == 1


@pytest.mark.filterwarnings("ignore:The pictures of the page")
def test_pictures_of_an_earlier_page_are_removed_and_other_files_kept(tmp_path):
    page = tmp_path / "page.html"
    collected(page, 5, 0)
    (tmp_path / "page_pictures" / "mine.png").write_bytes(b"")
    collected(page, 2, 0)
    assert len(os.listdir(tmp_path / "page_pictures")) == 3
    (tmp_path / "page_pictures" / "mine.png").unlink()
    collected(page, 2, 1 << 20)
    assert os.listdir(tmp_path) == []


@pytest.mark.filterwarnings("ignore:The pictures of the page")
def test_a_page_shows_pictures_of_its_folder(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "MAX_INSIDE", 1000)
    found = findings(sample=lambda i: Sample(png=png(i)))
    path = write_report(found, tmp_path / "report.html")
    assert len(os.listdir(tmp_path / "report_pictures")) == 40
    assert (
        "data:image/png;base64" not in path.read_text().split('"contents"')[1].split("</script>")[0]
    )
    browser.open(path)
    browser.wait_for(READY)
    browser.wait_for("document.querySelector('#samples .content img').naturalWidth === 8")
