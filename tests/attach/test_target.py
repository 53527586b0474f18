"""What a person may write for a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallback_plugin.attach.target import Target, read_target


@pytest.mark.parametrize(
    ("text", "password", "target"),
    [
        ("http://127.0.0.1:4096", None, Target("http://127.0.0.1:4096")),
        ("http://127.0.0.1:4096/", "p", Target("http://127.0.0.1:4096", "opencode", "p")),
        ("https://a.example/code/", None, Target("https://a.example/code")),
        ("http://anna@a.example", "p", Target("http://a.example", "anna", "p")),
        ("http://anna:own%40one@a.example", "p", Target("http://a.example", "anna", "own@one")),
        ("http://:own@[::1]:4096", None, Target("http://[::1]:4096", "opencode", "own")),
    ],
)
def test_a_url_is_read(text: str, password: str | None, target: Target) -> None:
    assert read_target(text, password) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4096",
        "localhost:4096",
        "ftp://a",
        "http://",
        "http://a:port",
        "http://a:0",
        "http://[::1",
        "http://a/?b=c",
    ],
)
def test_what_is_no_server_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it "):
        read_target(text)


@pytest.mark.parametrize(
    "text", ["http://u:secret@a:port", "u:secret@a", "http://u:secret@a/?x", "http://u:secret@[::1"]
)
def test_a_refusal_keeps_the_password_to_itself(text: str) -> None:
    with pytest.raises(ValueError, match="it ") as caught:
        read_target(text)

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@given(st.from_regex(r"[A-Za-z0-9]{8,20}", fullmatch=True))
def test_a_password_is_in_nothing_that_is_printed(password: str) -> None:
    target = read_target(f"http://user:{password}@127.0.0.1:4096")

    assert password not in f"{target} {target!r} {target.url}"


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.9.9.9:1", True),
        ("http://[::1]:1", True),
        ("http://localhost:1", True),
        ("http://10.0.0.1:1", False),
        ("http://localhost.example:1", False),
    ],
)
def test_a_server_of_this_machine_is_known(url: str, *, here: bool) -> None:
    assert read_target(url).is_this_machine is here
