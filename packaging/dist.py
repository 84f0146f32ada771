#!/usr/bin/env python3
"""Makes what is shipped, from a program that is built already: `make dist` calls it with the release build.

  rota-VERSION-linux-ARCH.tar.gz   the program, man pages, completions, systemd units
  rota_VERSION_ARCH.deb            the same for Debian and Ubuntu
  rota-VERSION-py3-none-….whl      the program and the Python package
  rota-VERSION-source.tar.gz       the sources with the built page: Node is not needed to build them
  DEPENDENCIES.txt                 every crate in the program, with its licence
  SHA256SUMS                       checksums of all of them
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
# Files are given one time, so that the same program makes the same bytes.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600"))


def run(*words: object, **options: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def version() -> str:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def glibc_needed(binary: Path) -> tuple[int, int]:
    """The newest version of the C library whose symbols the program uses."""
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "--version-info", "--wide", binary))
    return max((int(major), int(minor)) for major, minor in found)


def check_libraries(binary: Path) -> None:
    """The program needs the C library and nothing else from a machine."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", binary))
    allowed = ("libc.so", "libm.so", "libgcc_s.so", "libpthread.so", "libdl.so", "librt.so", "ld-linux")
    others = [name for name in needed if not name.startswith(allowed)]
    if others:
        raise SystemExit(f"the program needs {', '.join(others)}: it would not run where these are not installed")


def stripped(binary: Path, folder: Path) -> Path:
    result = folder / "rota"
    run("strip", "-o", result, binary)
    result.chmod(0o755)
    return result


def extras(binary: Path, folder: Path) -> dict[str, Path]:
    """Man pages, completions and units, by the path they have on a machine."""
    files = {}
    pages = folder / "man"
    run(binary, "man", "--out", pages)
    for page in sorted(pages.glob("*.1")):
        packed = page.with_suffix(".1.gz")
        packed.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        files[f"usr/share/man/man1/{packed.name}"] = packed
    places = {
        "bash": "usr/share/bash-completion/completions/rota",
        "zsh": "usr/share/zsh/vendor-completions/_rota",
        "fish": "usr/share/fish/vendor_completions.d/rota.fish",
    }
    for shell, place in places.items():
        script = folder / f"completions.{shell}"
        script.write_text(run(binary, "completions", shell))
        files[place] = script
    files["usr/lib/systemd/system/rota.service"] = ROOT / "packaging/systemd/rota.service"
    files["usr/lib/systemd/user/rota.service"] = ROOT / "packaging/systemd/rota-user.service"
    return files


def dependencies() -> str:
    """Every crate that is part of the program, with its licence."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    metadata = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in metadata["packages"] if package["name"] == "rota"]
    seen = set()
    while waiting:
        found = waiting.pop()
        if found in seen:
            continue
        seen.add(found)
        # Only what is linked: not what tests and build scripts use.
        waiting += [link["pkg"] for link in nodes[found]["deps"] if any(kind["kind"] is None for kind in link["dep_kinds"])]
    rows = []
    for package in sorted((packages[found] for found in seen), key=lambda package: (package["name"], package["version"])):
        if package["source"] is None:
            continue
        licence = package["license"] or package["license_file"] or "?"
        rows.append(f"{package['name']} {package['version']}  {licence}  {package['repository'] or ''}".rstrip())
    head = f"The crates that are part of `rota` {version()} on {target}, with their licences.\nRota itself: Apache-2.0 OR MIT.\n\n"
    return head + "\n".join(rows) + "\n"


def reset(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = EPOCH
    return info


def pack(path: Path, files: dict[str, Path], prefix: str) -> None:
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, source in sorted(files.items()):
            archive.add(source, f"{prefix}/{name}", recursive=False, filter=reset)


def make_archive(out: Path, binary: Path, files: dict[str, Path], licences: dict[str, Path]) -> None:
    name = f"rota-{version()}-linux-{platform.machine()}"
    pack(out / f"{name}.tar.gz", {"usr/bin/rota": binary, **files, **licences}, name)


def make_deb(out: Path, binary: Path, files: dict[str, Path], licences: dict[str, Path]) -> None:
    machine = DEBIAN_NAMES.get(platform.machine(), platform.machine())
    major, minor = glibc_needed(binary)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        documents = {f"usr/share/doc/rota/{name}": source for name, source in licences.items()}
        for place, source in {"usr/bin/rota": binary, **files, **documents}.items():
            target = root / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755 if place == "usr/bin/rota" else 0o644)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
        control = root / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text(
            f"Package: rota\nVersion: {version()}\nArchitecture: {machine}\nMaintainer: The Rota authors <rota@localhost>\n"
            f"Installed-Size: {size}\nDepends: libc6 (>= {major}.{minor}), libgcc-s1\nSection: science\nPriority: optional\n"
            "Description: decides whose turn it is on the GPU\n"
            " A queue for one workstation or a cluster: it runs jobs on GPUs, shares GPUs\n"
            " between jobs, and simulates every policy that it can run.\n"
        )
        for path in root.rglob("*"):
            os.utime(path, (EPOCH, EPOCH))
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, out / f"rota_{version()}_{machine}.deb")


def make_wheel(out: Path, binary: Path) -> None:
    major, minor = glibc_needed(binary)
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    info = f"rota-{version()}.dist-info"
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    metadata = (
        f"Metadata-Version: 2.4\nName: rota\nVersion: {version()}\nSummary: {project['description']}\n"
        f"Requires-Python: {project['requires-python']}\nLicense-Expression: {project['license']}\n"
        "Description-Content-Type: text/markdown\n\n" + (ROOT / "python/README.md").read_text()
    )
    files: dict[str, bytes] = {}
    for path in sorted((ROOT / "python/rota").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            files[str(path.relative_to(ROOT / "python"))] = path.read_bytes()
    files[f"rota-{version()}.data/scripts/rota"] = binary.read_bytes()
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: rota\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}")
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode()
    with zipfile.ZipFile(out / f"rota-{version()}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Installers ask whether it is a plain file before they make it a program.
            entry.external_attr = (0o100755 if name.endswith("/scripts/rota") else 0o100644) << 16
            wheel.writestr(entry, content)


def make_source(out: Path) -> None:
    """What is in the repository, and the built page with a mark that says so."""
    page = ROOT / "web/dist"
    if not (page / "index.html").is_file():
        raise SystemExit("web/dist has no page: run `make web` first")
    files = {name: ROOT / name for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0") if name and (ROOT / name).is_file()}
    files.update({str(path.relative_to(ROOT)): path for path in sorted(page.rglob("*")) if path.is_file()})
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "SHIPPED")
        mark.write_text("The page was built into this archive: `make build` needs no Node.\n")
        files["web/dist.shipped"] = mark
        pack(out / f"rota-{version()}-source.tar.gz", files, f"rota-{version()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the program, built")
    parser.add_argument("--out", type=Path, required=True, help="the folder for all of it")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        binary = stripped(arguments.binary, Path(folder))
        check_libraries(binary)
        (out / "DEPENDENCIES.txt").write_text(dependencies())
        licences = {name: ROOT / name for name in ("LICENSE-APACHE", "LICENSE-MIT")}
        licences["DEPENDENCIES.txt"] = out / "DEPENDENCIES.txt"
        files = extras(binary, Path(folder))
        make_archive(out, binary, files, licences)
        make_deb(out, binary, files, licences)
        make_wheel(out, binary)
        make_source(out)
    made = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (out / "SHA256SUMS").write_text(sums)
    for path in made:
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


if __name__ == "__main__":
    main()
