import errno
from pathlib import Path

import pytest

from fallback_plugin.errors import SettingsError
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.settings import Origin
from tests.settings.conftest import Machine

A, B, C = ModelRef("p", "a"), ModelRef("p", "b"), ModelRef("p", "c")


def test_without_any_file_the_defaults_hold(machine: Machine) -> None:
    loaded = machine.load()
    assert loaded.settings.fallback.max_attempts == 10
    assert loaded.settings.fallback.fallback_models == ()
    assert loaded.origins["fallback.max_attempts"] == Origin("default")
    assert loaded.files == ()


def test_each_layer_beats_the_one_before(machine: Machine) -> None:
    machine.write_user(
        "[fallback]\nmax_attempts = 2\ncooldown = 2\nfirst_token_timeout = 2\nnotify = false\n"
    )
    machine.write_project("[fallback]\nmax_attempts = 3\ncooldown = 3\nfirst_token_timeout = 3\n")
    machine.environ["FALLBACK_PLUGIN__FALLBACK__COOLDOWN"] = "4s"
    machine.environ["FALLBACK_PLUGIN__FALLBACK__MAX_ATTEMPTS"] = "4"

    loaded = machine.load(overrides={"fallback": {"max_attempts": 5}})

    fallback = loaded.settings.fallback
    assert (fallback.notify, fallback.first_token_timeout, fallback.cooldown, fallback.max_attempts) == (
        False,
        3,
        4,
        5,
    )
    assert loaded.origins["fallback.notify"] == Origin("user file", machine.user_file, 5)
    assert loaded.origins["fallback.first_token_timeout"] == Origin("project file", machine.project_file, 4)
    assert str(loaded.origins["fallback.cooldown"]) == "environment FALLBACK_PLUGIN__FALLBACK__COOLDOWN"
    assert loaded.origins["fallback.max_attempts"] == Origin("command line")
    assert loaded.files == (machine.user_file, machine.project_file)


def test_the_hosts_config_stands_between_files_and_environment(machine: Machine) -> None:
    machine.write_project('[agents.one]\nfallback_models = "p/a"\n[agents.two]\nfallback_models = "p/a"\n')
    machine.environ["FALLBACK_PLUGIN__AGENTS__TWO__FALLBACK_MODELS"] = "p/c"
    host = {"agent": {"One": {"fallback_models": ["p/b"]}, "two": {"fallback_models": ["p/b"]}}}

    loaded = machine.load(host_config=host)

    assert loaded.settings.agents["one"].candidates == (B,)
    assert loaded.settings.agents["two"].candidates == (C,)
    assert loaded.origins["agents.one.fallback_models"] == Origin("host config")


def test_agents_of_all_layers_meet_under_one_spelling(machine: Machine) -> None:
    machine.write_user('[agents."Build "]\nmodel = "p/a"\n')
    machine.write_project('[agents.build]\nfallback_models = ["p/b"]\n')
    loaded = machine.load()
    agent = loaded.settings.agents["build"]
    assert (agent.model, agent.candidates) == (A, (B,))
    assert loaded.origins["agents.build.model"] == Origin("user file", machine.user_file, 2)


def test_the_nearest_project_file_counts_alone(machine: Machine) -> None:
    machine.write_project("[fallback]\nmax_attempts = 3\nnotify = false\n")
    inner = machine.project / "inner"
    (inner / ".opencode").mkdir(parents=True)
    (inner / ".opencode" / "fallback.toml").write_text("[fallback]\nmax_attempts = 4\n")
    loaded = machine.load(directory=inner)
    assert (loaded.settings.fallback.max_attempts, loaded.settings.fallback.notify) == (4, True)
    assert loaded.warnings == ()


def test_two_files_in_one_project_are_said(machine: Machine) -> None:
    machine.write_project("")
    (machine.project / ".opencode").mkdir()
    (machine.project / ".opencode" / "fallback.toml").write_text("")
    (warning,) = machine.load().warnings
    assert warning.startswith(f"{machine.project}/.opencode/fallback.toml: not read")


def test_a_user_file_is_not_read_as_a_project_too(machine: Machine) -> None:
    machine.write_user('[plugins]\ndirs = ["mine"]\n')
    loaded = machine.load(directory=machine.user_file.parent)
    assert loaded.files == (machine.user_file,)
    assert loaded.settings.plugins.dirs == (machine.user_file.parent / "mine",)


def test_every_place_of_a_file_is_watched(machine: Machine) -> None:
    assert machine.load().watched == (
        machine.user_file,
        machine.project_file,
        machine.project / ".opencode" / "fallback.toml",
    )


def test_a_repeated_model_is_dropped_with_a_warning(machine: Machine) -> None:
    machine.write_project('[fallback]\nfallback_models = [\n  "p/a",\n  "p/b",\n  "p/a",\n]\n')
    loaded = machine.load()
    assert loaded.settings.fallback.candidates == (A, B)
    (warning,) = loaded.warnings
    assert warning.startswith(f"{machine.project_file}:5:3: fallback.fallback_models: p/a is there already")


def test_a_project_cannot_name_folders_of_plugins(machine: Machine) -> None:
    machine.write_project('[plugins]\ndirs = ["evil"]\nblock = ["x"]\n')
    loaded = machine.load()
    assert loaded.settings.plugins.dirs == ()
    assert loaded.settings.plugins.block == ("x",)
    (warning,) = loaded.warnings
    assert warning.startswith(f"{machine.project_file}:2:1: plugins.dirs is ignored")
    assert "must never run its Python" in warning


def test_a_project_cannot_choose_the_log_file(machine: Machine) -> None:
    machine.write_project('[log]\nfile = "~/.bashrc"\nlevel = "debug"\n')
    loaded = machine.load()
    assert loaded.settings.log.file is None
    assert loaded.settings.log.level == "debug"
    assert "log.file is ignored" in loaded.warnings[0]


def test_a_project_cannot_choose_the_health_file(machine: Machine) -> None:
    machine.write_project('[health]\nfile = "~/.bashrc"\n')
    loaded = machine.load()
    assert loaded.settings.health.file is None
    assert "health.file is ignored" in loaded.warnings[0]


def test_a_project_cannot_point_a_provider_elsewhere(machine: Machine) -> None:
    machine.write_user('[providers.one]\nbase_url = "https://one.example/v1"\napi_key_env = "KEY"\n')
    machine.write_project(
        '[providers.one]\nbase_url = "https://evil.example/v1"\napi_key_env = "OTHER"\nmodels = ["dear"]\n'
        'policy = { server = "stop" }\n'
    )

    loaded = machine.load()

    one = loaded.settings.providers["one"]
    assert (one.base_url, one.api_key_env, dict(one.models)) == ("https://one.example/v1", "KEY", {})
    assert one.policy == {"server": "stop"}
    assert [warning.partition(" is ignored")[0] for warning in loaded.warnings] == [
        f"{machine.project_file}:2:1: providers.one.base_url",
        f"{machine.project_file}:3:1: providers.one.api_key_env",
        f"{machine.project_file}:4:1: providers.one.models",
    ]


def test_a_project_cannot_loosen_permissions(machine: Machine) -> None:
    machine.write_project('[permissions]\nbash = "allow"\n')

    loaded = machine.load()

    assert loaded.settings.permissions.bash == "ask"
    assert "permissions is ignored in a project's file" in loaded.warnings[0]


def test_models_of_a_provider_are_a_list_or_a_table(machine: Machine) -> None:
    machine.write_user('[providers.one]\nmodels = ["a", "b"]\n[providers.two.models.c]\ncontext = 1000\n')

    providers = machine.load().settings.providers

    assert list(providers["one"].models) == ["a", "b"]
    assert providers["two"].models["c"].context == 1000


def test_a_later_layer_replaces_a_tools_patterns(machine: Machine) -> None:
    machine.write_user('[permissions]\nbash = { "git *" = "allow", "*" = "ask" }\nread = "ask"\n')
    machine.environ["FALLBACK_PLUGIN__PERMISSIONS__BASH"] = '{ "*" = "deny" }'

    permissions = machine.load().settings.permissions

    assert permissions.bash == {"*": "deny"}
    assert permissions.read == "ask"


def test_paths_start_at_the_users_file_or_home(machine: Machine) -> None:
    machine.write_user(
        '[plugins]\ndirs = ["mine", "~/yours", "/theirs"]\n'
        '[log]\nfile = "log.txt"\n[health]\nfile = "~/health.sqlite3"\n'
    )
    settings = machine.load().settings
    folder = machine.user_file.parent
    assert settings.plugins.dirs == (folder / "mine", machine.home / "yours", Path("/theirs"))
    assert settings.log.file == folder / "log.txt"
    assert settings.health.file == machine.home / "health.sqlite3"


def test_a_relative_folder_in_a_variable_is_not_the_projects(machine: Machine) -> None:
    machine.environ["FALLBACK_PLUGIN__PLUGINS__DIRS"] = "plugins"
    assert machine.load().settings.plugins.dirs == (machine.user_file.parent / "plugins",)


def test_the_block_variable_adds_names(machine: Machine) -> None:
    machine.write_user('[plugins]\nblock = ["one"]\n')
    machine.environ["FALLBACK_PLUGIN_BLOCK"] = "two,one"
    loaded = machine.load()
    assert loaded.settings.plugins.block == ("one", "two")
    assert str(loaded.origins["plugins.block"]) == "environment FALLBACK_PLUGIN_BLOCK"


def test_a_byte_order_mark_is_no_error(machine: Machine) -> None:
    machine.project_file.write_bytes(b"\xef\xbb\xbf[fallback]\nmax_attempts = 3\n")
    assert machine.load().settings.fallback.max_attempts == 3


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[fallback]\ncooldown = 60s\n", "fallback.toml:2:14: Expected newline or end of document"),
        ("[fallback\n", "fallback.toml:1:10: "),
        ("a = 1\na = 2\n", "fallback.toml:2:6: Cannot overwrite a value; the key is there already"),
        ('a = "x\n', "fallback.toml:1:7: "),
        (
            "models.a/b = 1\n",
            "fallback.toml:1:9: Expected '=' after a key in a key/value pair; write key = value",
        ),
        ("a = openai\n", "fallback.toml:1:5: Invalid value; texts, model names and durations need quotes"),
        (f"a = {'9' * 5000}\n", "fallback.toml:1:1: holds a number with too many digits"),
        (f"a = {'[' * 20000}\n", "fallback.toml:1:1: lists or tables are nested too deep"),
    ],
)
def test_malformed_toml_is_placed_and_explained(machine: Machine, text: str, complaint: str) -> None:
    machine.write_project(text)
    (line,) = machine.complaints()
    assert line.startswith(complaint)


def test_a_file_that_is_no_text_is_refused(machine: Machine) -> None:
    machine.project_file.write_bytes(b"[fallback]\nx = '\xff'\n")
    assert machine.complaints() == ["fallback.toml:2:1: is not UTF-8 text; save it as UTF-8"]


def test_a_folder_in_place_of_a_file_is_refused(machine: Machine) -> None:
    machine.project_file.mkdir()
    assert machine.complaints() == [
        "fallback.toml:1:1: cannot be read (Is a directory); make it a file that you may read"
    ]


def test_a_file_that_may_not_be_read_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert machine.complaints() == [
        "user/fallback.toml:1:1: cannot be read (Permission denied); make it a file that you may read"
    ]


def test_one_error_tells_everything_in_every_layer(machine: Machine) -> None:
    machine.write_user("[fallback]\ncooldown = \n")
    machine.write_project('[fallback]\nnotify = 1\ncoldown = "5s"\n')
    machine.environ["FALLBACK_PLUGIN__FALBACK__NOTIFY"] = "true"
    machine.environ["FALLBACK_PLUGIN__FALLBACK__MAX_ATTEMPTS"] = "none"
    complaints = machine.complaints(overrides={"fallback": {"cooldown": -1}})

    assert complaints[0].startswith("user/fallback.toml:2:12: Invalid value; ")
    assert complaints[1:] == [
        "fallback.toml:2:1: fallback.notify: 1 should be true or false",
        "fallback.toml:3:1: unknown key fallback.coldown; did you mean 'cooldown'?",
        "FALLBACK_PLUGIN__FALLBACK__MAX_ATTEMPTS: fallback.max_attempts: 'none' should be a whole number",
        "FALLBACK_PLUGIN__FALBACK__NOTIFY: unknown key falback; did you mean 'fallback'?",
        'command line: fallback.cooldown: -1 is negative; write "90s", "5m", "1h30m" or a number of seconds',
    ]


def test_a_wrong_value_is_told_even_where_a_later_layer_hides_it(machine: Machine) -> None:
    machine.write_user("[fallback]\nmax_attempts = 0\n")
    machine.write_project("[fallback]\nmax_attempts = 3\n")
    with pytest.raises(SettingsError, match="max_attempts"):
        machine.load()


def test_a_host_config_of_any_shape_is_no_error(machine: Machine) -> None:
    assert machine.load(host_config={"agent": {"build": {"fallback_models": 5}}}).settings.agents == {}
