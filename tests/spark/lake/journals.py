"""A lake's journal, read and altered as JSON."""

import json

from tailrace.spark.manifest.document import changed, dump, folded, load
from tailrace.spark.manifest.journal import Journal
from tailrace.spark.manifest.on_disk import LocalObjects


def come_back(folder, *manifests):
    """The last of manifests that a journal is given, as the next process reads it."""
    journal = Journal(LocalObjects(folder))
    for each in manifests:
        journal.prepare(each, [])
        journal.done(each)
    found = Journal(LocalObjects(folder))
    found.read()
    return found.manifest


def documents(lake):
    """The documents of a lake's journal by name, in the order of their batches."""
    folder = lake / "_tailrace" / "journal"
    return {path.name: path for path in sorted(folder.iterdir())}


def saved(lake):
    """The number of the last batch, the lake's part, and the tables, all as JSON."""
    paths = documents(lake)
    first = max((name for name in paths if ".all" in name), default="")
    number, whole, lines = 0, {}, {}
    for name in [first, *sorted(paths)] if first else sorted(paths):
        if name != first and (name[:6] <= first[:6] or ".all" in name):
            continue
        outcome = paths.get(f"{name[:6]}.done.jsonl")
        if outcome is not None and json.loads(outcome.read_text().split("\n")[0]).get("withdrawn"):
            continue
        found = load(str(paths[name]), paths[name].read_bytes())
        number, whole = found.head["batch"], changed(whole, found.head.get("lake", {}))
        for key, line in found.lines.items():
            if line is None:
                del lines[key]
            else:
                lines[key] = [line] if line.replaces else [*lines.get(key, []), line]
    return number, whole, {key: folded(each) for key, each in lines.items()}


def rewrite(lake, number, whole, tables):
    """Let the journal have one checkpoint, of this state; gives its path."""
    for path in documents(lake).values():
        path.unlink()
    path = lake / "_tailrace" / "journal" / f"{number:06}.all.jsonl"
    lines = {key: [each] for key, each in tables.items()}
    path.write_bytes(dump(str(path), {"batch": number, "lake": [whole]}, lines))
    return path
