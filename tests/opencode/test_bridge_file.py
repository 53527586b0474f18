"""Joining the bridge's modules: order, names, and what is refused."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin.errors import InstallError
from fallback_plugin.opencode.bridge_file import joined
from fallback_plugin.opencode.install import bridge_module, bridge_text
from tests.opencode.node import node

FOLDER: Final = Path(__file__).parents[2] / "hooks" / "opencode"
SOURCES: Final = sorted(FOLDER.iterdir())


def of(**modules: str) -> Callable[[str], str]:
    """Return how modules are read that are given by their names without the extension."""
    return {f"{name}.js": text for name, text in modules.items()}.__getitem__


def refused(match: str, **modules: str) -> None:
    with pytest.raises(InstallError, match=match):
        joined("entry.js", of(**modules))


def test_the_entrys_opening_comment_is_the_first_and_its_code_the_last() -> None:
    text = joined(
        "entry.js",
        of(
            entry='// The entry.\n// It is ours.\n\nimport { a } from "./a.js"\n\nexport default a\n',
            a="// The letter a.\n\nexport const a = 1\n",
        ),
    )

    assert text == ("// The entry.\n// It is ours.\n\n// The letter a.\n\nconst a = 1\n\nexport default a\n")


def test_a_module_stands_once_and_after_those_it_imports() -> None:
    text = joined(
        "entry.js",
        of(
            entry='import { a } from "./a.js"\nimport { c } from "./c.js"\nconst d = a(c)\n',
            a='import { b } from "./b.js"\nimport { c } from "./c.js"\nexport const a = () => b + c\n',
            b='import { c } from "./c.js"\nexport const b = c\n',
            c="export const c = 1\n",
        ),
    )

    assert re.findall(r"^const (\w)", text, re.MULTILINE) == ["c", "b", "a", "d"]


def test_imports_from_the_runtime_come_first_and_once() -> None:
    text = joined(
        "entry.js",
        of(
            entry='import { b } from "./b.js"\nimport { join } from "node:path"\nconst c = join(b)\n',
            b=(
                'import { spawn } from "node:child_process"\n'
                'import { dirname, join } from "node:path"\n'
                "export const b = 1\n"
            ),
        ),
    )

    assert text.splitlines()[:3] == [
        'import { spawn } from "node:child_process"',
        'import { dirname, join } from "node:path"',
        "",
    ]
    assert text.count("import") == 2


@pytest.mark.parametrize(
    "declaration", ["const a = 1", "let a", "function a() {}", "async function a() {}", "class a {}"]
)
def test_every_kind_of_declaration_can_be_exported(declaration: str) -> None:
    text = joined("entry.js", of(entry='import { a } from "./a.js"', a=f"export {declaration}"))

    assert text == f"{declaration}\n"


@pytest.mark.parametrize(
    "form",
    [
        'import a from "./a.js"',
        'import * as a from "./a.js"',
        'import { a as b } from "./a.js"',
        'import { a } from "./a.js";',
        "import { a } from './a.js'",
        'import {\n  a,\n} from "./a.js"',
        'import "./a.js"',
        'import { a } from "../a.js"',
        'import { a } from "left-pad"',
        '  import { a } from "./a.js"',
        'const a = await import("./a.js")',
        "const a = import.meta.url",
    ],
)
def test_an_import_of_another_form_is_refused(form: str) -> None:
    refused(r"^entry\.js:\d: ", entry=form, a="export const a = 1")


@pytest.mark.parametrize(
    "form",
    [
        "export { a }",
        'export * from "./b.js"',
        "export default a",
        "export const { a } = b",
        "const { a } = b",
        "a()",
        "/* a */",
        "const a = 1; export { a }",
    ],
)
def test_anything_else_at_the_top_of_a_module_is_refused(form: str) -> None:
    refused(r"^a\.js:2: ", entry='import { a } from "./a.js"', a=f"// The letter a.\n{form}")


def test_a_comment_may_speak_of_imports() -> None:
    text = "const a = [\n  // no import { a } and no export\n]\n"

    assert joined("entry.js", of(entry=text)) == text


def test_two_modules_have_no_name_in_common() -> None:
    refused(
        r"^entry\.js:2: b means something else in a\.js:2",
        entry='import { a } from "./a.js"\nconst b = a',
        a="export const a = 1\nconst b = 2",
    )


def test_nor_has_one_a_name_that_another_has_from_the_runtime() -> None:
    refused(
        r"^entry\.js:2: join means something else in a\.js:1",
        entry='import { a } from "./a.js"\nfunction join() {}',
        a='import { join } from "node:path"\nexport const a = join',
    )


def test_nor_do_two_have_it_from_different_places_of_the_runtime() -> None:
    refused(
        r"^entry\.js:2: join means something else in a\.js:1",
        entry='import { a } from "./a.js"\nimport { join } from "node:path/posix"',
        a='import { join } from "node:path"\nexport const a = join',
    )


def test_a_name_is_declared_once() -> None:
    refused(r"^entry\.js:2: a is declared in entry\.js:1", entry="const a = 1\nfunction a() {}")


def test_what_is_imported_is_exported() -> None:
    refused(r"^entry\.js:1: a\.js exports no a$", entry='import { a } from "./a.js"', a="const a = 1")


def test_modules_do_not_import_each_other() -> None:
    refused(
        r"a\.js -> b\.js -> a\.js",
        entry='import { a } from "./a.js"',
        a='import { b } from "./b.js"\nexport const a = 1',
        b='import { a } from "./a.js"\nexport const b = 1',
    )


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(InstallError, match=r"nowhere\.js is missing"):
        joined("nowhere.js", bridge_module)


def test_every_module_of_the_bridge_is_in_the_installed_file() -> None:
    text = bridge_text("/python")

    for source in SOURCES:
        assert bridge_module(source.name).splitlines()[0] in text.splitlines()


def test_the_installed_file_exports_the_plugin_alone() -> None:
    exports = re.findall(r"^.*\bexport\b.*$", bridge_text("/python"), re.MULTILINE)

    assert exports == ["export default {"]


def test_each_module_can_be_imported_alone() -> None:
    program = "for (const file of process.argv.slice(1)) await import(file)"

    ran = subprocess.run(
        [node(), "--input-type=module", "--eval", program, *SOURCES],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_module_imports_each_name_of_another_that_it_uses(source: Path) -> None:
    """Without its import a name would be found in the installed file, and not in the module alone."""
    others = "".join(other.read_text() for other in SOURCES if other != source)
    exported = set(re.findall(r"^export (?:const|(?:async )?function|class) (\w+)", others, re.MULTILINE))
    text = source.read_text()
    imports = re.findall(r"^import \{ (.*) \} from \"\./", text, re.MULTILINE)
    imported = {name for names in imports for name in names.split(", ")}
    code = re.sub(r'//.*|"[^"]*"', "", text)

    used = {name for name in exported if re.search(rf"(?<![\w.#$]){name}\b(?!:)", code)}

    assert used == imported
