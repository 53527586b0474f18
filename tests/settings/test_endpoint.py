import pytest

from fallback_plugin.settings.endpoint import endpoint_url, served_models


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1"),
        (" https://api.example.com/v1/ ", "https://api.example.com/v1"),
        ("https://[::1]:8443/v1", "https://[::1]:8443/v1"),
    ],
)
def test_an_address_is_read_without_its_last_slash(written: str, read: str) -> None:
    assert endpoint_url(written) == read


@pytest.mark.parametrize(
    "written", ["", "api.example.com/v1", "ftp://example.com", "https://", "http://[::1", "http://x:99999", 5]
)
def test_what_is_no_address_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="not the address"):
        endpoint_url(written)


@pytest.mark.parametrize("written", ["https://me:s3cret@example.com/v1", "https://example.com/v1?key=s3cret"])
def test_a_secret_in_an_address_is_refused_and_not_repeated(written: str) -> None:
    with pytest.raises(ValueError, match="holds no name, password or query") as refusal:
        endpoint_url(written)
    assert "s3cret" not in str(refusal.value)


def test_names_become_a_table() -> None:
    assert served_models(["a", "b"]) == {"a": {}, "b": {}}


def test_models_in_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match="a list of names, or a table"):
        served_models("a")


@pytest.mark.parametrize("written", [["a, b"], ["c", "a,b"], {"a, b": {}}], ids=repr)
def test_several_names_in_one_string_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r'write a list of names: \["a", "b"\]'):
        served_models(written)
