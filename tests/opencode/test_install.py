"""Plans of installing and uninstalling, and carrying them out."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from fallback_plugin import __version__
from fallback_plugin.errors import InstallError
from fallback_plugin.opencode.install import (
    MARKER,
    Action,
    Places,
    Plan,
    bridge_text,
    carry_out,
    look,
    places,
    plan_install,
    plan_uninstall,
    starter_text,
)

OURS: Final = f"{MARKER}; and so on\ncode\n"
OLDER: Final = f"{MARKER}; and so on\nolder code\n"
BRIDGE: Final = Path("/config/opencode/plugin/fallback-plugin.js")
SETTINGS: Final = Path("/config/fallback-plugin/fallback.toml")
OTHER: Final = Path("/project/.opencode/plugin/fallback-plugin.js")
WHERE: Final = Places(BRIDGE, SETTINGS, (OTHER,))
NOTHING: Final = {BRIDGE: None, SETTINGS: None, OTHER: None}


def kinds(plan: Plan) -> list[tuple[str, Path]]:
    return [(action.kind, action.path) for action in plan.actions]


def test_the_users_places_follow_the_configuration_folder() -> None:
    where = places("user", directory=Path("/project"), environ={"HOME": "/me", "XDG_CONFIG_HOME": "/config"})

    assert (where.bridge, where.settings) == (BRIDGE, SETTINGS)


def test_without_a_configuration_folder_it_is_the_one_in_the_home_folder() -> None:
    where = places("user", directory=Path("/project"), environ={"HOME": "/me"})

    assert where.bridge == Path("/me/.config/opencode/plugin/fallback-plugin.js")
    assert where.settings == Path("/me/.config/fallback-plugin/fallback.toml")


def test_a_projects_places_are_in_its_dot_folder() -> None:
    where = places("project", directory=Path("/project"), environ={"HOME": "/me"})

    assert where.bridge == OTHER
    assert where.settings == Path("/project/.opencode/fallback.toml")


def test_every_other_place_opencode_loads_from_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "inner"
    inner.mkdir()

    where = places("user", directory=inner, environ={"XDG_CONFIG_HOME": "/config"})

    folders = (Path("/config/opencode"), inner / ".opencode", tmp_path / ".opencode")
    expected = {folder / name / BRIDGE.name for folder in folders for name in ("plugin", "plugins")}
    assert set(where.elsewhere) == expected - {BRIDGE}


def test_a_first_install_creates_both_files() -> None:
    plan = plan_install(WHERE, NOTHING, bridge=OURS, starter="starter")

    assert [(action.kind, action.path, action.text) for action in plan.actions] == [
        ("create", BRIDGE, OURS),
        ("create", SETTINGS, "starter"),
    ]


def test_a_second_install_changes_nothing() -> None:
    plan = plan_install(WHERE, {**NOTHING, BRIDGE: OURS, SETTINGS: "mine"}, bridge=OURS, starter="starter")

    assert kinds(plan) == [("keep", BRIDGE), ("keep", SETTINGS)]
    assert not plan.changes


def test_an_older_bridge_is_updated() -> None:
    plan = plan_install(WHERE, {**NOTHING, BRIDGE: OLDER, SETTINGS: "mine"}, bridge=OURS, starter="starter")

    assert kinds(plan) == [("update", BRIDGE), ("keep", SETTINGS)]


@pytest.mark.parametrize("foreign", ["export default () => {}", "", f"const text = '{MARKER}'"])
def test_a_foreign_file_is_never_overwritten(foreign: str) -> None:
    with pytest.raises(InstallError, match="rename or move"):
        plan_install(WHERE, {**NOTHING, BRIDGE: foreign}, bridge=OURS, starter="starter")


@pytest.mark.parametrize("settings", ["mine", ""])
def test_settings_are_never_overwritten(settings: str) -> None:
    plan = plan_install(WHERE, {**NOTHING, SETTINGS: settings}, bridge=OURS, starter="starter")

    assert kinds(plan) == [("create", BRIDGE), ("keep", SETTINGS)]


def test_a_second_copy_is_a_warning() -> None:
    plan = plan_install(WHERE, {**NOTHING, OTHER: OLDER}, bridge=OURS, starter="starter")

    assert len(plan.warnings) == 1
    assert str(OTHER) in plan.warnings[0]


def test_a_foreign_file_elsewhere_is_none_of_our_business() -> None:
    plan = plan_install(WHERE, {**NOTHING, OTHER: "theirs"}, bridge=OURS, starter="starter")

    assert plan.warnings == ()


def test_uninstalling_removes_the_bridge_and_leaves_the_settings() -> None:
    plan = plan_uninstall(WHERE, {**NOTHING, BRIDGE: OLDER, SETTINGS: "mine"})

    assert kinds(plan) == [("remove", BRIDGE), ("keep", SETTINGS)]


def test_uninstalling_leaves_a_foreign_file() -> None:
    plan = plan_uninstall(WHERE, {**NOTHING, BRIDGE: "theirs"})

    assert kinds(plan) == [("keep", BRIDGE)]


def test_uninstalling_what_is_not_there_does_nothing() -> None:
    plan = plan_uninstall(WHERE, NOTHING)

    assert plan == Plan(())


def test_uninstalling_names_a_copy_that_stays() -> None:
    plan = plan_uninstall(WHERE, {**NOTHING, BRIDGE: OURS, OTHER: OURS})

    assert len(plan.warnings) == 1
    assert str(OTHER) in plan.warnings[0]


def test_a_created_file_has_its_text_and_leaves_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "plugin" / "a.js"

    carry_out(Plan((Action("create", target, "", "日本"),)))

    assert target.read_text(encoding="utf-8") == "日本"
    assert list(target.parent.iterdir()) == [target]


def test_an_update_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    source, link = tmp_path / "source.js", tmp_path / "link.js"
    source.write_text("source")
    link.symlink_to(source)

    carry_out(Plan((Action("update", link, "", "new"),)))

    assert (source.read_text(), link.read_text(), link.is_symlink()) == ("source", "new", False)


def test_a_file_that_appears_after_planning_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "a.js"
    plan = Plan((Action("create", target, "", "ours"),))
    target.write_text("theirs")

    with pytest.raises(InstallError, match="just appeared"):
        carry_out(plan)

    assert target.read_text() == "theirs"


def test_a_removed_file_is_gone_and_may_be_gone_already(tmp_path: Path) -> None:
    target = tmp_path / "a.js"
    target.write_text("ours")
    plan = Plan((Action("remove", target, ""),))

    carry_out(plan)
    carry_out(plan)

    assert not target.exists()


def test_a_kept_file_is_not_touched(tmp_path: Path) -> None:
    carry_out(Plan((Action("keep", tmp_path / "a.toml", ""),)))

    assert list(tmp_path.iterdir()) == []


def test_what_the_file_system_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "plugin").write_text("a file where a folder should be")

    with pytest.raises(InstallError, match=r"cannot create .*a\.js"):
        carry_out(Plan((Action("create", tmp_path / "plugin" / "a.js", "", "text"),)))


@pytest.mark.parametrize("kind", ["dangling link", "bytes", "file above"])
def test_what_is_not_text_counts_as_a_foreign_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "fallback-plugin.js"
    match kind:
        case "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        case "bytes":
            path.write_bytes(b"\xff\xfe")
        case _:
            path = path / "below"
            path.parent.write_text("a file")

    view = look(Places(path, tmp_path / "a.toml", ()))

    assert view == {path: None if kind == "file above" else "", tmp_path / "a.toml": None}


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="cannot read"):
        look(Places(tmp_path, tmp_path / "a.toml", ()))


@pytest.mark.parametrize(
    "interpreter", ["/usr/bin/python3", '/home/a "b"\\c/日本/python', "/opt/\u2028/python"]
)
def test_the_bridge_names_the_interpreter_as_a_string_of_javascript(interpreter: str) -> None:
    found = re.findall(r"^const INTERPRETER = (.*)$", bridge_text(interpreter), re.MULTILINE)

    assert [json.loads(text) for text in found] == [interpreter]
    assert found[0].isascii()


@pytest.mark.parametrize("interpreter", ["", "python3", "bin/python3"])
def test_an_interpreter_without_a_path_is_refused(interpreter: str) -> None:
    with pytest.raises(InstallError, match="own path"):
        bridge_text(interpreter)


def test_the_bridge_has_the_version_of_the_package() -> None:
    assert f'const BRIDGE_VERSION = "{__version__}"\n' in bridge_text("/python")


def test_the_bridge_can_be_told_from_a_foreign_file() -> None:
    text = bridge_text("/python")

    plan = plan_install(WHERE, {**NOTHING, BRIDGE: text}, bridge=text, starter="")

    assert kinds(plan)[0] == ("keep", BRIDGE)


def test_there_are_settings_to_start_with() -> None:
    assert "fallback_models" in starter_text()
