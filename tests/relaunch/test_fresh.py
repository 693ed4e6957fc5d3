"""The folder of a fresh compile cache: the user's own, empty, private, and the same for all trials of a session."""

from __future__ import annotations

from pathlib import Path

from vdoctor.model import Change
from vdoctor.relaunch.fresh import FRESH, folder, prepare, tidy, with_folder
from vdoctor.relaunch.steps import Step

STEP = Step(
    "fresh-cache",
    Change(env={"VLLM_CACHE_ROOT": FRESH, "TRITON_CACHE_DIR": f"{FRESH}/triton", "OTHER": "x", "GONE": None}),
    "safe",
    {"en": f"Start with VLLM_CACHE_ROOT={FRESH}.", "zh": FRESH},
)


def test_folder_lies_in_the_users_cache(tmp_path: Path) -> None:
    assert folder({"HOME": str(tmp_path)}) == str(tmp_path / ".cache" / "vllm-fresh")
    assert folder({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c")}) == str(tmp_path / "c" / "vllm-fresh")


def test_folder_that_holds_something_or_that_others_may_write_is_passed_over(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    first = tmp_path / "vllm-fresh"
    first.mkdir(mode=0o700)
    assert folder(env) == str(first)
    first.chmod(0o777)
    assert folder(env) == f"{first}-2"
    first.chmod(0o700)
    (first / "old").touch()
    (tmp_path / "vllm-fresh-2").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "vllm-fresh-3").write_text("a file")
    assert folder(env) == f"{first}-4"


def test_search_that_goes_on_keeps_its_folder(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    (tmp_path / "vllm-fresh" / "old").mkdir(parents=True)
    used = str(tmp_path / "vllm-fresh-7")
    for change in (with_folder(STEP, used).change, Change(env={"TRITON_CACHE_DIR": f"{used}/triton"})):
        assert folder(env, [Change(env={"A": "1"}), change]) == used


def test_step_and_its_texts_name_the_folder() -> None:
    step = with_folder(STEP, "/h/vllm-fresh-2")
    assert step.change.env == {
        "VLLM_CACHE_ROOT": "/h/vllm-fresh-2",
        "TRITON_CACHE_DIR": "/h/vllm-fresh-2/triton",
        "OTHER": "x",
        "GONE": None,
    }
    assert step.title["en"] == "Start with VLLM_CACHE_ROOT=/h/vllm-fresh-2."
    assert with_folder(step, "/other") == step


def test_folder_is_made_for_the_user_alone_and_goes_when_nothing_was_put_there(tmp_path: Path) -> None:
    place = tmp_path / "c" / "vllm-fresh"
    prepare(Change(env={"TRITON_CACHE_DIR": f"{place}/triton"}))
    assert place.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["vllm-fresh"]
    tidy(str(place))
    assert not place.exists()
    prepare(Change(env={"VLLM_CACHE_ROOT": str(place)}))
    (place / "kept").touch()
    tidy(str(place))
    assert (place / "kept").exists()


def test_nothing_is_made_for_other_changes(tmp_path: Path) -> None:
    prepare(Change(env={"A": str(tmp_path / "x"), "B": None, "C": "vllm-fresh", "D": "~/.cache/vllm-fresh"}))
    assert list(tmp_path.iterdir()) == []
