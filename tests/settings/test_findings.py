import pytest

from tests.settings.conftest import Machine


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[falback]", "1:1: unknown key falback; did you mean 'fallback'?"),
        ('fallback_models = "p/a"', "1:1: unknown key fallback_models; it belongs in [fallback]"),
        ("[fallback]\nlevel = 1", "2:1: unknown key fallback.level; it belongs in [log]"),
        ("[log]\nzzz = 1", "2:1: unknown key log.zzz; known here: level, file"),
        ("[agents.build]\nmodle = 1", "2:1: unknown key agents.build.modle; did you mean 'model'?"),
        ("[agents.model]\nmodle = 1", "2:1: unknown key agents.model.modle; did you mean 'model'?"),
        (
            '[models."p/a"]\ncoldown = 1',
            "2:1: unknown key models.\"p/a\".coldown; did you mean 'cooldown'?",
        ),
        (
            '[[fallback.rules]]\npattern = "x"\nkind = "quota"\nkimd = 1',
            "4:1: unknown key fallback.rules[0].kimd; did you mean 'kind'?",
        ),
        ("fallback = 3", "1:1: fallback: 3 should be a table"),
        ("agents = []", "1:1: agents: [] should be a table"),
        ("[agents]\nbuild = 1", "2:1: agents.build: 1 should be a table"),
        ("[fallback]\nenabled = 'yes'", "2:1: fallback.enabled: 'yes' should be true or false"),
        ("[fallback]\nmax_attempts = 2.0", "2:1: fallback.max_attempts: 2.0 should be a whole number"),
        ("[fallback]\nmax_attempts = true", "2:1: fallback.max_attempts: true should be a whole number"),
        (
            "[fallback]\nmax_attempts = 0",
            "2:1: fallback.max_attempts: 0: input should be greater than or equal to 1",
        ),
        (
            "[fallback]\nmax_attempts = 100000",
            "2:1: fallback.max_attempts: 100000: input should be less than or equal to 1000",
        ),
        (
            "[fallback]\non_foreign_abort = 'stp'",
            "2:1: fallback.on_foreign_abort: 'stp' is not known here; did you mean 'stop'?",
        ),
        (
            "[fallback]\non_foreign_abort = 7",
            "2:1: fallback.on_foreign_abort: 7 is not known here; write one of stop, advance",
        ),
        (
            "[fallback.policy]\nrate_limits = 'stop'",
            "2:1: unknown kind of failure fallback.policy.rate_limits; did you mean 'rate_limit'?",
        ),
        (
            "[fallback.policy]\nauth = 'sotp'",
            "2:1: fallback.policy.auth: 'sotp' is not known here; did you mean 'stop'?",
        ),
        ("[fallback]\nrules = 'x'", "2:1: fallback.rules: 'x' should be a list"),
        ("[[fallback.rules]]\nkind = 'quota'", "1:1: fallback.rules[0].pattern: this key is missing"),
        (
            "[[fallback.rules]]\nkind = 'quota'\npattern = '[a'",
            (
                "3:1: fallback.rules[0].pattern: '[a' is not a regular expression: "
                "unterminated character set at position 0"
            ),
        ),
        ("[plugins]\nblock = [1]", "2:10: plugins.block[0]: 1 should be a string"),
        (
            "agents.x.fallback_models = [\n'p/a',\n'gpt']",
            (
                "3:1: agents.x.fallback_models[1]: 'gpt' is not a model: write it as provider/model, "
                "e.g. openai/gpt-5.1"
            ),
        ),
        (
            "[fallback]\nfallback_models = 5",
            '2:1: fallback.fallback_models: 5 is not a chain; write ["provider/model", "provider/model"]',
        ),
        (
            "[fallback]\nfallback_models = 'p/a, q/b'",
            (
                "2:1: fallback.fallback_models[0]: 'p/a, q/b' is several models in one string; "
                'write a list: ["p/a", "q/b"]'
            ),
        ),
        (
            "[agents.x]\nfallback_models = ['p/a', 'p/a, q/b']",
            (
                "2:27: agents.x.fallback_models[1]: 'p/a, q/b' is several models in one string; "
                'write a list: ["p/a", "q/b"]'
            ),
        ),
        (
            "[agents.x]\nmodel = 'p/a,q/b'",
            '2:1: agents.x.model: \'p/a,q/b\' is several models in one string; write a list: ["p/a", "q/b"]',
        ),
        (
            "[serve]\nmodel = 'p/a q/b'",
            '2:1: serve.model: \'p/a q/b\' is several models in one string; write a list: ["p/a", "q/b"]',
        ),
        (
            "[models.gpt]",
            "1:1: models.gpt: 'gpt' is not a model: write it as provider/model, e.g. openai/gpt-5.1",
        ),
        (
            "[models.acme/first]",
            (
                "1:13: Expected ']' at the end of a table declaration; "
                'a name with a slash or a colon in it needs quotes: [models."acme/first"]'
            ),
        ),
        (
            "\n[models.acme/first:high]\nx = 1",
            (
                "2:13: Expected ']' at the end of a table declaration; "
                'a name with a slash or a colon in it needs quotes: [models."acme/first:high"]'
            ),
        ),
        ("[agents.A]\n[agents.a]", "2:1: agents.a: this agent is there already; keep one"),
    ],
)
def test_a_mistake_is_placed_named_and_answered(machine: Machine, text: str, complaint: str) -> None:
    machine.write_project(text)
    assert machine.complaints() == [f"fallback.toml:{complaint}"]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "1e300", "'abc'", "''", "true", "[]", "32e5"])
@pytest.mark.parametrize(
    "key",
    [
        "fallback.cooldown",
        "fallback.first_token_timeout",
        "fallback.stall_timeout",
        'models."p/a".cooldown',
        'models."p/a".stall_timeout',
    ],
)
def test_an_absurd_duration_is_refused_with_its_key(machine: Machine, key: str, value: str) -> None:
    machine.write_project(f"{key} = {value}")
    (line,) = machine.complaints()
    assert line.startswith("fallback.toml:1:")
    assert f": {key}: " in line


def test_mistakes_come_in_the_order_of_the_file(machine: Machine) -> None:
    machine.write_project("[log]\nzz = 1\n[fallback]\nnotify = 1\nyy = 1\nenabled = 1\n")
    assert [line.split(":")[1] for line in machine.complaints()] == ["2", "4", "5", "6"]


def test_a_long_value_is_cut(machine: Machine) -> None:
    machine.write_project(f"[fallback]\nnotify = '{'x' * 1000}'\n")
    assert len(machine.complaints()[0]) < 150
