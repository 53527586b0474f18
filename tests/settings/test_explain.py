from fallback_plugin.settings.explain import Explained, explained
from fallback_plugin.settings.layer import Origin
from tests.settings.conftest import Machine


def test_every_setting_has_a_value_and_an_origin(machine: Machine) -> None:
    machine.write_project('[models."p/a"]\ncooldown = "5m"\n[fallback]\nnotify = false\n')
    found = {one.key: one for one in explained(machine.load())}
    file = machine.project_file
    assert found["fallback.notify"] == Explained("fallback.notify", False, Origin("project file", file, 4))  # noqa: FBT003 -- a setting's value
    assert found['models."p/a".cooldown'].origin == Origin("project file", file, 2)
    assert found['models."p/a".first_token_timeout'].origin == Origin("default")
    assert found["log.level"] == Explained("log.level", "info", Origin("default"))


def test_a_key_or_its_table_finds_a_setting_with_or_without_quotes() -> None:
    one = Explained('models."p/a".cooldown', 1, Origin("default"))
    assert one.is_under('models."p/a".cooldown')
    assert one.is_under("models.p/a")
    assert one.is_under("models")
    assert not one.is_under("model")
