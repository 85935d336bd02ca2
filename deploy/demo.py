"""`make demo`: start everything, import deploy/examples, index it with real workers, search it, stop.

Runs on the embedded defaults in a data directory of its own, `.demo/` in the checkout, emptied at each start; nothing of the
caller's settings is used. Ends with 0, 1 if something failed (then with the ends of the logs), or 130 after Ctrl-C.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from config import flower
from config.settings import load
from deploy.run import stack
from knowledge.errors import KnowledgeError
from knowledge.interfaces.cli import streams
from knowledge.model.tools import INSTALL_TESSERACT

ROOT: Final = Path(__file__).resolve().parents[1]
EXAMPLES: Final = ROOT / "deploy" / "examples"
MARKER: Final = "made-by-make-demo"  #: only a directory that holds this file is ever emptied
BASE: Final = "lighthouse"
SEARCHES: Final = ("who may climb the tower", "what to do when the radio link fails", "什么时候开启雾号")
IN_THE_SCAN: Final = "which buoy was found adrift"  #: only letters/1911-notice-to-mariners.pdf says it, a picture of a page
INSTALL_SECONDS: Final = 120
HITS: Final = 3
INDEX_SECONDS: Final = 100  #: many times what it takes
DRAIN_SECONDS: Final = 5  #: nobody waits a minute for a demo to stop
STOPPED: Final = 130
LIKELY: Final = ("broker", "release", "control", "worker")  #: logs that most likely tell what is wrong, the likeliest last


class DemoFailed(Exception):
    """One of the steps did not work."""


class Demo:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
        self.environ = kept | {"KNOWLEDGE_DATA_DIR": str(directory), "KNOWLEDGE_DRAIN_SECONDS": str(DRAIN_SECONDS)}
        self.times: dict[str, float] = {}
        self.reads_scans = False

    def run(self) -> None:
        with self.phase("clean", "a data directory of its own"):
            self.empty()
        with self.phase("scans", "tesseract, which reads a scanned letter"):
            self.reads_scans = has_tesseract()
            if not self.reads_scans:
                say(f"The letter of 1911 is a scan and will not be found; to have scans read: {INSTALL_TESSERACT}")
        try:
            with self.phase("start", "broker, workers, beat and Flower"):
                running = stack.up(self.environ)
                say(running.report())
            with self.phase("index", "import a folder and wait for the workers"):
                self.knowledge("base", "create", BASE)
                self.knowledge("item", "add", BASE, shown(EXAMPLES), "--wait", "--timeout", str(INDEX_SECONDS))
                self.knowledge("base", "show", BASE)
            with self.phase("search", "three questions, one of them in Chinese"):
                for query in SEARCHES:
                    self.knowledge("search", BASE, query, "--limit", str(HITS))
                if self.reads_scans:
                    say("\nand one that only a scanned page answers")
                    self.knowledge("search", BASE, IN_THE_SCAN, "--limit", "1")
        finally:
            self.stopped()
        say(self.how_to_go_on(running))

    def empty(self) -> None:
        """Stop what an earlier demo left running here, and make the directory anew."""
        if self.directory.exists():
            if not (self.directory / MARKER).is_file() and any(self.directory.iterdir()):
                raise DemoFailed(f"{self.directory} was not made by the demo; it is left alone")
            stack.down(self.environ)
            shutil.rmtree(self.directory)
        self.directory.mkdir(mode=0o700, parents=True)
        (self.directory / MARKER).touch()
        say(shown(self.directory))

    def knowledge(self, *arguments: str) -> None:
        """Run the real command line; what it prints goes where this prints."""
        say(f"\n$ knowledge {' '.join(quoted(argument) for argument in arguments)}")
        done = subprocess.run([*command(), *arguments], cwd=ROOT, env=self.environ, check=False)  # noqa: S603 - our own commands
        if done.returncode < 0 or done.returncode == STOPPED:
            raise KeyboardInterrupt
        if done.returncode != 0:
            raise DemoFailed(f"`knowledge {arguments[0]}` ended with exit code {done.returncode}")

    def stopped(self) -> None:
        """Stop, also where nobody reads any more what this prints."""
        try:
            with self.phase("stop", "everything that was started"):
                self.stop()
        except OSError:
            stack.down(self.environ)
            raise

    def stop(self) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it running
        try:
            say("down" if stack.down(self.environ) else "nothing was up")
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def phase(self, name: str, what: str) -> Iterator[None]:
        began = time.monotonic()
        say(f"\n== {name}: {what}")
        try:
            yield
        finally:
            self.times[name] = time.monotonic() - began

    def report_times(self) -> None:
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.times.items())
        say(f"\ntime: {phases}; together {sum(self.times.values()):.1f} s")

    def report_logs(self) -> None:
        """How each log ends: what a person would look at first."""
        settings = load(self.environ)
        written = {log.stem for log in (settings.run_dir / "logs").glob("*.log")}
        for name in sorted(written, key=lambda name: (name in LIKELY, LIKELY.index(name) if name in LIKELY else 0, name)):
            print(f"\n{stack.tail(settings, name)}", file=sys.stderr)

    def how_to_go_on(self, running: stack.Stack) -> str:
        home = shown(self.directory)
        knowledge = shown(command()[0]) if len(command()) == 1 else "knowledge"
        return f"""
This library is kept in {home}. To go on with it:

  export KNOWLEDGE_DATA_DIR={self.directory}
  make up                 # Flower: {running.flower_url}, user {running.settings.flower_user},
                          # password in {shown(flower.password_file(running.settings))}
  {knowledge} search {BASE} "your question"
  {knowledge} item add {BASE} ~/a/folder/of/yours --wait
  {knowledge} --help
  make down

The next `make demo` empties {home}; unset KNOWLEDGE_DATA_DIR, or choose another directory, for a library to keep."""


def has_tesseract() -> bool:
    """Whether scans can be read here. Where that needs no question to anybody, tesseract is installed; it is never required."""
    if shutil.which("tesseract") is not None:
        return True
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    say("installing tesseract-ocr")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "tesseract-ocr"]
    try:
        for step in (["apt-get", "update", "-qq"], install):
            subprocess.run(step, env=environ, check=True, timeout=INSTALL_SECONDS, **quiet)  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return False
    return shutil.which("tesseract") is not None


def command() -> list[str | Path]:
    """The console script of this environment, else the same by module."""
    script = Path(sys.executable).with_name("knowledge")
    return [script] if script.is_file() else [sys.executable, "-m", "knowledge.interfaces.cli"]


def shown(path: str | Path) -> str:
    """Relative to the checkout where possible: short, and what a person would type."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument else argument


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str]) -> int:
    streams.mend()
    demo = Demo(Path(arguments[0]).resolve() if arguments else ROOT / ".demo")
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        demo.run()
        demo.report_times()
    except KeyboardInterrupt:
        print("\ndemo: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # nobody reads on; everything has been stopped
        return 1
    except (DemoFailed, KnowledgeError, stack.StackFailed, OSError) as error:
        with suppress(OSError, KnowledgeError):  # where nothing can be written there are no logs either
            demo.report_logs()
        with suppress(OSError):
            print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    finally:
        streams.let_go()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
