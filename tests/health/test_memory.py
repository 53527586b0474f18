from fallback_plugin.health import MemoryHealth
from fallback_plugin.health.memory import SWEEP_EVERY_S


def test_expired_leases_are_thrown_away() -> None:
    health = MemoryHealth()
    for number in range(100):
        health.claim(f"failure {number}", "a", number, ttl_s=1)

    health.claim("last", "a", 100 + SWEEP_EVERY_S, ttl_s=1)

    assert list(health._leases) == ["last"]
