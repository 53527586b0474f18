"""How endpoints are reached: through a proxy or past it, and by whose certificates."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

import pytest

from fallback_plugin.agent.providers.exchange import Finished, ModelEvent, ModelRequest, TextDelta
from fallback_plugin.agent.providers.failure import ModelFailedError
from fallback_plugin.agent.providers.registry import Providers
from fallback_plugin.fallback.classify import classify
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.network import trusted_certificates
from fallback_plugin.settings import ProviderSettings
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import stream

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    b'data: {"choices": [{"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*PROXIES, "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    trusted_certificates.cache_clear()
    yield
    trusted_certificates.cache_clear()


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"m": [stream("yes")]}) as provider:
        yield provider


async def ask(base_url: str) -> list[ModelEvent]:
    settings = ProviderSettings.model_validate({"base_url": base_url, "models": ["m"]})
    providers = Providers({"p": settings}, {})
    model, request = ModelRef("p", "m"), ModelRequest(session_id="s", messages=[])
    try:
        await providers.get_ready(model)  # whatever is wrong, this ends nothing
        async with providers.stream(model, request) as events:
            return [event async for event in events]
    finally:
        await providers.aclose()


@pytest.mark.parametrize("proxy", [NOBODY, "socks5://127.0.0.1:9", "socks4://127.0.0.1:9"])
@pytest.mark.parametrize("socks", ["there", "missing"])
async def test_P16_this_machine_is_never_proxied(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, proxy: str, socks: str
) -> None:
    if socks == "missing":
        monkeypatch.setitem(sys.modules, "socksio", None)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy)

    assert (await ask(provider.url))[0] == TextDelta("yes")


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("socks5://127.0.0.1:9", "pip install 'fallback-plugin[socks]'"),
        ("socks4://127.0.0.1:9", "ALL_PROXY begins with socks4://"),
        ("http://127.0.0.1:port", "Connection error: ALL_PROXY is no address"),
    ],
)
async def test_P16_a_proxy_that_cannot_be_used_is_a_failure_of_the_request(
    monkeypatch: pytest.MonkeyPatch, proxy: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", proxy)

    with pytest.raises(ModelFailedError) as failure:
        await ask("http://provider.example/v1")

    assert said in failure.value.error.message
    assert classify(failure.value.error, 0.0).kind == "transport"


@dataclass
class SocksProxy:
    """Accepts any SOCKS5 request and connects it to one port of this machine."""

    to_port: int
    asked_for: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        head = await reader.readexactly(5)
        assert head[:4] == b"\x05\x01\x00\x03", "a connection to a name"
        self.asked_for.append((await reader.readexactly(head[4])).decode())
        await reader.readexactly(2)
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        there, back = await asyncio.open_connection("127.0.0.1", self.to_port)
        await asyncio.gather(_carry(reader, back), _carry(there, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(4096):
        writer.write(piece)
    writer.close()


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_P16_a_socks_proxy_is_used_for_other_machines(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    proxy = SocksProxy(int(provider.url.rsplit(":", 1)[1].partition("/")[0]))
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:{port}")

        assert (await ask("http://provider.example/v1"))[0] == TextDelta("yes")

    assert proxy.asked_for == ["provider.example"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate that only its own file vouches for; return it and its key."""
    if which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "made.pem", folder / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", made], check=True, capture_output=True)
    return made, key


@asynccontextmanager
async def secure_server(certificate: tuple[Path, Path]) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize("way", ["system", "file"])
async def test_P17_a_companys_certificate_is_trusted(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    trusted = str(certificate[0])
    if way == "file":
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
    else:
        paths = ssl.DefaultVerifyPaths(trusted, "", "SSL_CERT_FILE", trusted, "SSL_CERT_DIR", "/none")
        monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    async with secure_server(certificate) as url:
        assert await ask(url) == [TextDelta("yes"), Finished("stop")]


async def test_P17_any_other_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    async with secure_server(certificate) as url:
        with pytest.raises(ModelFailedError) as failure:
            await ask(url)

    assert classify(failure.value.error, 0.0).kind == "tls"


async def test_P17_a_file_of_certificates_that_is_not_there_is_a_failure_of_the_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    with pytest.raises(ModelFailedError, match="No such file"):
        await ask("https://provider.example/v1")
