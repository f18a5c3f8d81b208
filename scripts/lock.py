"""Write constraints-hashes.txt, the versions in constraints.txt with the digests of their files, or compare it.

python -m scripts.lock           ask the registry, and write the file
python -m scripts.lock --check   ask the registry; exit with 1 if it offers other files, with 3 if it cannot be asked

Digests are those of the files that pip chooses on this system. Digests of unchanged versions are kept, so the file can
be renewed on several systems, one after the other. To install nothing but files that it names:
pip install --require-hashes --no-deps -r constraints-hashes.txt
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINS, LOCK = ROOT / "constraints.txt", ROOT / "constraints-hashes.txt"
_HEAD = "# Made by `python -m scripts.lock`: the pinned versions with the SHA-256 of their files.\n"
COULD_NOT_ASK = 3
Digests = dict[str, set[str]]


def pinned() -> list[str]:
    """Return the lines of constraints.txt that name a version."""
    lines = (line.strip() for line in PINS.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def locked() -> Digests:
    """Return the digests in constraints-hashes.txt by pin."""
    found: Digests = {}
    for line in LOCK.read_text(encoding="utf-8").splitlines() if LOCK.exists() else []:
        if not line.startswith("#"):
            pin, *hashes = line.split(" --hash=sha256:")
            found[pin] = set(hashes)
    return found


def offered() -> dict[str, tuple[str, str]]:
    """Return digest and file name that the registry offers for each pin; exit with 3 if it cannot be asked."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    options = ["--disable-pip-version-check", "--report", "-", "--requirement", str(PINS)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"could not ask the registry: {last}", file=sys.stderr)
        sys.exit(COULD_NOT_ASK)
    by_name = {}
    for entry in json.loads(done.stdout)["install"]:
        archive = entry["download_info"]
        name = entry["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
        by_name[name] = (archive["archive_info"]["hashes"]["sha256"], archive["url"].rpartition("/")[2])
    names = {pin: pin.partition("==")[0].lower().replace("_", "-").replace(".", "-") for pin in pinned()}
    return {pin: by_name[name] for pin, name in names.items()}


def differences(known: Digests, found: dict[str, tuple[str, str]]) -> list[str]:
    """Return one line per pin whose file is not the known one, or that only one side has."""
    wrong = [f"{pin}: not in constraints.txt any more" for pin in known if pin not in found]
    for pin, (digest, file) in found.items():
        if pin not in known:
            wrong.append(f"{pin}: not in {LOCK.name}")
        elif digest not in known[pin]:
            wrong.append(f"{pin}: {file} has the digest {digest}, which {LOCK.name} does not name")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    known, found = locked(), offered()
    if check:
        wrong = differences(known, found)
        print("\n".join(wrong) or f"the registry offers the known files of all {len(found)} pinned versions")
        return 1 if wrong else 0
    lines = [" ".join([pin, *(f"--hash=sha256:{d}" for d in sorted(known.get(pin, set()) | {found[pin][0]}))])
             for pin in found]  # fmt: skip
    LOCK.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{LOCK.name}: {len(lines)} versions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
