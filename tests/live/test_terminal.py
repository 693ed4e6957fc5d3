"""`watch` on a real terminal: the child gets one, too, and the status line touches none of its bytes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.live.conftest import CHILD
from tests.processes import VDOCTOR, Mark, Terminal, hold, until
from tests.tmux import Tmux, needs_tmux

WATCH = (*VDOCTOR, "watch", "--no-session")
#: Everything below and right of the cursor goes; the child wrote nothing there.
CLEAR = b"\x1b[K\x1b[C\x1b[J\x1b[D"
#: The terminal's own doing: a newline becomes CR LF on its way to the screen.
COLOURS = b"\x1b[31mred\x1b[0m \x1b[1;36m(EngineCore_DP0 pid=7)\x1b[0;0m\r\n"


def without_status(output: bytes) -> bytes:
    """What stays on the screen: the panel stands below the cursor, which goes back to where it was."""
    drawn = (
        rb"\x1b\[\?7l(?:\x1b\[K\x1b\[C)?(?:\x1b\[J)?(?:\x1b\[D)?\r(?:\r?\n)?"
        rb"vdoctor [^\r\n\x1b]*(?:\r\r?\n [^\r\n\x1b]*)*\r(?:\x1b\[\d+A)?\x1b\[\d+G\x1b\[\?7h"
    )
    return re.sub(drawn, b"", output).replace(CLEAR, b"").replace(b"\x1b[J", b"")


def test_child_sees_terminals_of_our_size_and_its_colours_arrive(mark: Mark) -> None:
    terminal = Terminal([*WATCH, "-q", "--", *CHILD, "terminal"], env=mark.env, rows=43, columns=132)
    status, output = terminal.finish()
    assert status == 0
    assert without_status(output) == (
        b"fd 0: other\r\nfd 1: terminal 132x43\r\nfd 2: terminal 132x43\r\n"
        + COLOURS
        + b"\rbar  10%|#   | 1/10\rbar 100%|####| 10/10\r\n"
    )


def test_new_size_of_the_window_reaches_the_child(mark: Mark) -> None:
    terminal = Terminal([*WATCH, "--", *CHILD, "resized"], env=mark.env, rows=43, columns=132)
    terminal.wait_for(b"ready 132x43")
    terminal.resize(30, 70)
    terminal.wait_for(b"now 70x30")
    assert terminal.finish()[0] == 0


def test_status_line_appears_while_the_child_is_silent_and_is_cleared(mark: Mark, tmp_path: Path) -> None:
    script = f"{hold(tmp_path / 'one')}; echo after; {hold(tmp_path / 'two')}"
    terminal = Terminal([*WATCH, "--", "sh", "-c", script], env=mark.env)
    terminal.wait_for(b" s  launch")
    (tmp_path / "one").touch()
    terminal.wait_for(CLEAR + b"after\r\n\x1b[?7l\rvdoctor ")
    (tmp_path / "two").touch()
    status, output = terminal.finish()
    assert status == 0
    assert re.search(rb"\rvdoctor +\d+ s  launch", output)
    # Nothing but the clearing stands before the child's output, and it is cleared for good at the end.
    assert CLEAR + b"after\r\n" in output
    assert b"vdoctor" not in without_status(output)
    assert output.rindex(CLEAR) > output.rindex(b"vdoctor ")
    # The report below is in colour.
    assert b"\x1b[1" in without_status(output)


def test_open_line_is_not_cut_by_the_status_line_below(mark: Mark, tmp_path: Path) -> None:
    """A prompt or a bar without a newline keeps its line, and the cursor its place in it."""
    script = f"printf 'half a line'; sleep 0.7; echo ' is whole'; {hold(tmp_path / 'go')}"
    terminal = Terminal([*WATCH, "--", "sh", "-c", script], env=mark.env)
    terminal.wait_for(b"vdoctor ")
    (tmp_path / "go").touch()
    output = terminal.finish()[1]
    assert b"half a line is whole\r\n" in without_status(output)
    assert re.search(rb"\x1b\[\dA\x1b\[12G", output)


def test_status_line_fits_in_a_narrow_terminal_beside_a_redirected_output(mark: Mark, tmp_path: Path) -> None:
    """The width is that of the terminal, and half a line in the file does not hold the status line up."""
    with (tmp_path / "out").open("wb") as out:
        argv = [*WATCH, "--", "sh", "-c", f"printf 'no end'; {hold(tmp_path / 'go')}"]
        terminal = Terminal(argv, env=mark.env, columns=40, stdout=out.fileno())
        assert until(lambda: (tmp_path / "out").read_bytes() == b"no end")
        # The time stands at the left, whatever the width: wait for a line that was drawn after the output came.
        terminal.wait_for(b"1 s  launch")
        (tmp_path / "go").touch()
        _, output = terminal.finish()
    lines = re.findall(rb"vdoctor [^\r\n\x1b]*", output)
    assert lines
    assert max(map(len, lines)) < 40
    assert (tmp_path / "out").read_bytes() == b"no end"


def test_only_the_stream_that_is_a_terminal_is_one_for_the_child(mark: Mark, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        terminal = Terminal([*WATCH, "-q", "--", *CHILD, "terminal"], env=mark.env, stdout=out.fileno())
        _, output = terminal.finish()
    assert (tmp_path / "out").read_bytes() == (
        b"fd 0: other\nfd 1: other\nfd 2: terminal 100x24\n" + COLOURS.replace(b"\r\n", b"\n")
    )
    assert output == b"\rbar  10%|#   | 1/10\rbar 100%|####| 10/10\r\n"


def test_quiet_leaves_the_terminal_to_the_child(mark: Mark) -> None:
    argv = [*WATCH, "-q", "--", "sh", "-c", "sleep 0.6; echo only"]
    assert Terminal(argv, env=mark.env).finish() == (0, b"only\r\n")


def test_control_c_reaches_the_child_once(mark: Mark) -> None:
    terminal = Terminal([*WATCH, "-q", "--", *CHILD, "count", "SIGINT"], env=mark.env)
    terminal.wait_for(b"ready")
    terminal.type(b"\x03")
    status, output = terminal.finish()
    assert status == 0
    assert b"came 1 times" in output
    assert mark.left() == []


def test_child_is_told_when_the_terminal_goes_away(mark: Mark) -> None:
    """The window is closed: SIGHUP ends the server as it would without us."""
    terminal = Terminal([*WATCH, "--", "sh", "-c", "echo ready; exec sleep 600"], env=mark.env)
    terminal.wait_for(b"ready")
    os.close(terminal.fd)
    assert mark.left(20.0) == []
    terminal.process.wait(1.0)


def test_no_color_keeps_our_report_plain(mark: Mark) -> None:
    _, output = Terminal([*WATCH, "--", "false"], env=mark.env | {"NO_COLOR": "1"}).finish()
    assert b"\x1b[" not in without_status(output)


@needs_tmux
def test_screen_in_tmux_shows_the_status_line_and_then_only_what_was_printed(mark: Mark, tmp_path: Path) -> None:
    script = "import os, sys, time\nprint('\\x1b[31mred\\x1b[0m', os.isatty(1), os.isatty(2), flush=True)\n"
    script += f"while not os.path.exists({str(tmp_path / 'go')!r}):\n  time.sleep(0.02)\nprint('done')\nsys.exit(6)"
    tmux = Tmux(tmp_path, mark)
    tmux.start(*WATCH, "--", sys.executable, "-S", "-E", "-c", script)
    try:
        assert until(lambda: "red True True\nvdoctor" in tmux.screen()), tmux.screen()
        assert "\x1b[31mred" in tmux.screen("-e")
        (tmp_path / "go").touch()
        assert until(lambda: "\nstatus 6" in tmux.screen()), tmux.screen()
        shown = tmux.screen().splitlines()
        assert shown[:2] == ["red True True", "done"]
        assert not [line for line in shown if line.startswith("vdoctor")]
    finally:
        tmux.stop()


@needs_tmux
def test_nothing_is_drawn_while_another_job_has_the_terminal(mark: Mark, tmp_path: Path) -> None:
    """After Ctrl-Z the server goes on; a panel would stand in the way of the shell."""
    go, beats = tmp_path / "go", tmp_path / "beats"
    script = f"import time\nwhile True:\n  print('beat', flush=True)\n  time.sleep(1.2)\n  open({str(beats)!r}, 'a').write('.')"
    jobs = f'"$@"; echo stopped; until [ -e "{go}" ]; do sleep 0.1; done; fg'
    tmux = Tmux(tmp_path, mark)
    tmux.start("bash", "-mc", jobs, "bash", *WATCH, "--", sys.executable, "-S", "-E", "-c", script)
    try:
        assert until(lambda: "beat\nvdoctor" in tmux.screen() and beats.exists()), tmux.screen()
        tmux.press("C-z")
        assert until(lambda: "stopped" in tmux.screen()), tmux.screen()
        seen, shown = beats.stat().st_size, ""
        while beats.stat().st_size < seen + 3:
            shown += tmux.screen().rpartition("stopped")[2]
        assert "beat" in shown
        assert "vdoctor" not in shown
        go.touch()
        assert until(lambda: "beat\nvdoctor" in tmux.screen().rpartition("stopped")[2]), tmux.screen()
    finally:
        tmux.stop()
