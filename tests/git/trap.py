"""A repository whose own git settings name commands, each of which leaves a file when it runs."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

FILES = {
    "a.py": "def a():\n    return 1\n",
    "b.txt": "b\n",
    "c.md": "c\n",
    "d.py": "d\n",
    "e.dat": "e\n",
    "m.mrg": "1\n2\n3\n",
}
ATTRIBUTES = (
    "*.py filter=one diff=one\n*.txt filter=two=x\n*.md filter=three\n*.dat diff=two filter=four\n*.mrg merge=one\n"
)
HOOKS = (
    *("post-index-change", "pre-commit", "post-commit", "post-checkout", "pre-auto-gc", "fsmonitor-watchman"),
    *("reference-transaction", "prepare-commit-msg", "post-merge", "post-rewrite", "pre-push"),
)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def repository(folder: Path) -> Path:
    """With one commit, a branch that can be merged, and a submodule."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in {**FILES, ".gitattributes": ATTRIBUTES}.items():
        (folder / name).write_text(text)
    (folder / "sub").mkdir()
    git(folder / "sub", "init", "-q", "-b", "main")
    (folder / "sub" / "s.py").write_text("s\n")
    (folder / "sub" / ".gitattributes").write_text("*.py filter=inner\n")
    git(folder / "sub", "add", "-A")
    git(folder / "sub", "commit", "-qm", "first")
    (folder / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    git(folder, "checkout", "-q", "-b", "side")
    (folder / "m.mrg").write_text("1\n2\nthree\n")
    git(folder, "commit", "-qam", "side")
    git(folder, "checkout", "-q", "main")
    (folder / "m.mrg").write_text("one\n2\n3\n")
    git(folder, "commit", "-qam", "main")
    return folder


def arm(repo: Path, ran: Path) -> None:
    """Everything in a repository that names a command, each of which would leave a file in `ran`."""
    ran.mkdir()

    def touch(name: str) -> str:
        return f"touch {shlex.quote(f'{ran}/{name}')}"

    for name in ("gpg", "gpgssh", "askpass"):
        program = repo / ".git" / f"{name}.sh"
        program.write_text(f"#!/bin/sh\n{touch(name)}\n")
        program.chmod(0o755)
    settings = {
        "filter.one.clean": f"{touch('clean')}; cat",
        "filter.one.smudge": f"{touch('smudge')}; cat",
        "filter.one.required": "true",
        "filter.two=x.process": touch("process"),
        "diff.one.textconv": f"{touch('textconv')}; cat",
        "diff.two.command": touch("command"),
        "diff.external": touch("external"),
        "merge.one.driver": touch("merge"),
        "core.fsmonitor": f"{touch('fsmonitor')}; false",
        "core.pager": f"{touch('pager')}; cat",
        "pager.log": f"{touch('pager-log')}; cat",
        "core.editor": touch("editor"),
        "sequence.editor": touch("sequence-editor"),
        "core.sshCommand": touch("ssh"),
        "core.gitProxy": f"{ran}/../proxy.sh",
        "core.askPass": str(repo / ".git" / "askpass.sh"),
        "credential.helper": f"!{touch('credential')}",
        "credential.http://127.0.0.1.helper": f"!{touch('credential-url')}",
        "gpg.program": str(repo / ".git" / "gpg.sh"),
        "gpg.ssh.program": str(repo / ".git" / "gpgssh.sh"),
        "gpg.ssh.defaultKeyCommand": touch("default-key"),
        "alias.diff": f"!{touch('alias')}",
        "alias.st": f"!{touch('alias-st')}",
        "remote.origin.url": f"ext::sh -c {touch('remote').replace(' ', '% ')}",
        "protocol.ext.allow": "always",
        "remote.here.url": str(repo),
        "remote.here.uploadpack": f"{touch('uploadpack')}; git-upload-pack",
        "remote.here.receivepack": f"{touch('receivepack')}; git-receive-pack",
        "uploadpack.packObjectsHook": touch("pack-objects"),
        "trailer.x.key": "X",
        "trailer.x.command": touch("trailer"),
        "tar.foo.command": f"{touch('tar')}; cat",
        "submodule.sub.url": str(repo / "sub"),
        "submodule.sub.update": f"!{touch('submodule')}",
        "submodule.sub.active": "true",
        "core.alternateRefsCommand": touch("alternate-refs"),
        "interactive.diffFilter": f"{touch('diff-filter')}; cat",
        "color.ui": "always",
        "difftool.x.cmd": touch("difftool"),
        "mergetool.x.cmd": touch("mergetool"),
        "man.x.cmd": touch("man"),
        "man.viewer": "x",
        "browser.x.cmd": touch("browser"),
        "web.browser": "x",
        "include.path": "../included",
        "extensions.worktreeConfig": "true",
    }
    for key, value in settings.items():
        git(repo, "config", key, value)
    proxy = ran.parent / "proxy.sh"
    proxy.write_text(f"#!/bin/sh\n{touch('proxy')}\n")
    proxy.chmod(0o755)
    (repo / "included").write_text(f'[filter "four"]\n\tclean = "{touch("included")}; cat"\n')
    git(repo, "config", "--worktree", "filter.three.clean", f"{touch('worktree')}; cat")
    (repo / ".git" / "info" / "attributes").write_text(ATTRIBUTES)
    if (repo / "sub").exists():
        git(repo / "sub", "config", "filter.inner.clean", f"{touch('submodule-clean')}; cat")
    for name in HOOKS:
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch('hook-' + name)}\n")
        hook.chmod(0o755)
    for path in ran.iterdir():
        path.unlink()


def change(repo: Path) -> None:
    """Changes files without changing their length, so that git must read their content."""
    for path in [*(repo / name for name in FILES), repo / "sub" / "s.py"]:
        path.write_text(path.read_text().swapcase())


def marks(ran: Path) -> set[str]:
    return {path.name for path in ran.iterdir()}
