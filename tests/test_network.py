"""Which proxies and certificates of the environment are used, and what is said of those that cannot be."""

import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fallback_plugin.network import is_this_machine, proxy_problem, trusted_certificates


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what was read before, and after."""
    trusted_certificates.cache_clear()
    yield
    trusted_certificates.cache_clear()


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", True),  # noqa: S104 -- an address to ask
        ("localhost", True),
        ("LOCALHOST.", True),
        ("ollama.localhost", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("notlocalhost", False),
        ("", False),
    ],
)
def test_P16_this_machine_is_known(host: str, *, here: bool) -> None:
    assert is_this_machine(host) is here


@pytest.mark.parametrize(
    "proxies",
    [
        {},
        {"http": "http://proxy:3128", "https": "https://me:secret@proxy"},
        {"all": "proxy:3128"},
        {"all": "socks5://proxy:1080"},
        {"all": "SOCKS5H://proxy:1080"},
        {"all": "socks4://proxy:1080", "no": "*"},
        {"ftp": "ftp://proxy"},
    ],
)
def test_P16_proxies_that_can_be_used_are_no_problem(proxies: dict[str, str]) -> None:
    assert proxy_problem(proxies) is None


@pytest.mark.parametrize("scheme", ["socks", "socks4", "socks4a", "ftp"])
def test_P16_a_proxy_of_another_kind_is_named_without_its_password(scheme: str) -> None:
    problem = proxy_problem({"all": f"{scheme}://me:secret@proxy:1080"}) or ""

    assert problem.startswith(f"ALL_PROXY begins with {scheme}://")
    assert "socks5://" in problem
    assert "secret" not in problem


@pytest.mark.parametrize("url", ["http://proxy:port", "http://", "proxy:99999", "http://[::1"])
def test_P16_what_is_no_address_is_said(url: str) -> None:
    assert proxy_problem({"https": url}) == "HTTPS_PROXY is no address of a proxy: write http://host:port"


def test_P16_what_a_socks_proxy_needs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("https_proxy", "socks5://me:secret@proxy:1080")

    problem = proxy_problem() or ""

    assert "HTTPS_PROXY is a SOCKS proxy" in problem
    assert "pip install 'fallback-plugin[socks]'" in problem
    assert "secret" not in problem


@pytest.mark.usefixtures("fresh")
def test_P17_without_certificates_of_the_system_the_bundled_ones_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    nowhere = str(tmp_path / "none")
    paths = ssl.DefaultVerifyPaths("", "", "SSL_CERT_FILE", nowhere, "SSL_CERT_DIR", nowhere)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    monkeypatch.setattr("httpcore2._ssl.CA_FILE_CANDIDATES", [])

    assert trusted_certificates().get_ca_certs() != []


@pytest.mark.usefixtures("fresh")
def test_P17_a_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    with pytest.raises(OSError, match="No such file"):
        trusted_certificates()
