"""Waits and moments in prose, in the languages that providers speak.

A number counts only with a unit, and only where the words around it say that something opens again then:
"5-hour limit" is no wait. Every pattern is linear in the text, which is in lower case and bounded by the caller.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

UNITS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds", "毫秒", "ミリ秒"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟", "초"), 1.0),
    **dict.fromkeys(
        ("sekunde", "sekunden", "segundo", "segundos", "seconde", "secondes", "secondi", "секунд"), 1.0
    ),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "分", "分钟", "分鐘", "분"), 60.0),
    **dict.fromkeys(("minuten", "minuto", "minutos", "minuti", "минут"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "小時", "时间", "時間", "시간"), 3600.0),
    **dict.fromkeys(
        ("stunde", "stunden", "hora", "horas", "heure", "heures", "ore", "часов", "часа"), 3600.0
    ),
    **dict.fromkeys(("d", "day", "days", "天", "日", "일"), 86_400.0),
    **dict.fromkeys(
        ("tag", "tage", "tagen", "día", "días", "dia", "dias", "jour", "jours", "giorni", "дней"), 86_400.0
    ),
    **dict.fromkeys(("w", "week", "weeks", "周", "週間", "주"), 604_800.0),
    **dict.fromkeys(("woche", "wochen", "semana", "semanas", "semaine", "semaines"), 604_800.0),
    **dict.fromkeys(("month", "months", "个月"), 30 * 86_400.0),
}

_NUMBER: Final = r"(?<![\d.])\d{1,9}(?:\.\d{1,9})?"
_UNIT: Final = "|".join(sorted(UNITS, key=len, reverse=True))
_ONE: Final = rf"(?P<number>{_NUMBER}) ?(?P<unit>{_UNIT})(?![a-zà-ÿ])"
_BEFORE: Final = (
    r"(?:(?:try|retry|retrying|again|available|reset|resets|resetting|renews?|refresh(?:es)?|wait|waiting|back|opens?|restored)"
    r"[^\d\n]{0,40}?"
    r"|(?:请在|请于|请等待|将在|将于|等待|还需|约)[^\d\n]{0,10}?"
    r"|(?:in|en|em|dans|tra|fra|noch|через)\s(?:etwa |circa |about |~)?"
    r"|(?:erneut|versuchen|intent|réessay|riprova|aguarde|espere|attend|warte)[^\d\n]{0,40}?)~?"
)
_AFTER: Final = r"\s?(?:后|後|以后|之后|이?\s?후|뒤)"
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ABOUT_RESET: Final = r"(?:reset|resets|again|regain|available|renew|refresh|until|wait|\|1\d{9}|重置|恢复|刷新|解除|再试|リセット|초기화)"


def spoken_wait_s(text: str) -> float | None:
    """Return the wait a text tells as a duration: ``try again in 5 days 22 hours``, ``请在 30 秒后重试``."""
    for begins in _introduction().finditer(text):
        if (wait := _duration_at(text, begins.end())) is not None:
            return wait
    for found in _duration().finditer(text):
        end = _end_of_duration(text, found.start())
        if _follow_up().match(text, end):
            return _duration_at(text, found.start())
    return None


def duration_s(text: str) -> float | None:
    """Return a value that is nothing but a duration: ``1976.365s``, ``156h0m34s``, ``4hr 59min``."""
    trimmed = text.strip().lower()
    if _end_of_duration(trimmed, 0) != len(trimmed):
        return None
    return _duration_at(trimmed, 0)


def _duration_at(text: str, at: int) -> float | None:
    """Return the duration that begins at a place: units in a row, each smaller than the one before."""
    total, last, seen = 0.0, float("inf"), False
    while found := _duration().match(text, at):
        unit = UNITS[found["unit"]]
        if unit >= last:
            break
        total, last, seen, at = total + float(found["number"]) * unit, unit, True, _next(text, found.end())
    return total if seen else None


def _end_of_duration(text: str, at: int) -> int:
    end, last = at, float("inf")
    while found := _duration().match(text, at):
        unit = UNITS[found["unit"]]
        if unit >= last:
            break
        end, last, at = found.end(), unit, _next(text, found.end())
    return end


def _next(text: str, at: int) -> int:
    """Skip what stands between two units of one duration."""
    found = _joint().match(text, at)
    return found.end() if found else at


@cache
def _duration() -> re.Pattern[str]:
    return re.compile(_ONE)


@cache
def _introduction() -> re.Pattern[str]:
    return re.compile(_BEFORE + rf"(?={_NUMBER} ?(?:{_UNIT}))")


@cache
def _follow_up() -> re.Pattern[str]:
    return re.compile(_AFTER)


@cache
def _joint() -> re.Pattern[str]:
    return re.compile(r"(?:,? ?and |, ?| )?")


def stated_moments(text: str, now: float) -> Iterator[float]:
    """Yield the moments a text names, in seconds since the epoch: dates and clock times that have a zone."""
    if not _about_reset().search(text):
        return
    for find in (_iso_moments, _named_dates, _clock_times, _epochs):
        yield from find(text, now)


@cache
def _about_reset() -> re.Pattern[str]:
    return re.compile(_ABOUT_RESET)


@cache
def _iso() -> re.Pattern[str]:
    return re.compile(
        r"(?:(?P<year>\d{4})[-/])?(?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?:t| (?:at )?)(?P<hour>\d{1,2}):(?P<minute>\d\d)"
        r"(?::(?P<second>\d\d)(?:\.\d{1,9})?)? ?(?P<zone>z\b|\(?(?:utc|gmt)(?:[+-]\d{1,2}(?::?\d\d)?)?\)?|[+-]\d\d:?\d\d|\(?[a-z]{2,12}/[a-z_]{2,20}\)?)?"
    )


@cache
def _dated() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?,?(?: at)? "
        r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>am|pm)?,? ?"
        r"(?P<zone>utc|gmt|z\b|\([a-z]{2,12}/[a-z_]{2,20}\)|\(utc\))?"
    )


@cache
def _clock() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\d:-])(?<!\d[ t])(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>am|pm)?,? "
        r"(?P<zone>\([a-z]{2,12}/[a-z_]{2,20}(?:/[a-z_]{2,20})?\)|\(?(?:utc|gmt)\)?)"
    )


@cache
def _epoch() -> re.Pattern[str]:
    return re.compile(r"(?<![\d.])(1[6-9]\d{8})(\d{3})?(?![\d.])")


def _iso_moments(text: str, now: float) -> Iterator[float]:
    for found in _iso().finditer(text):
        zone = _zone(found["zone"])
        if zone is None:
            continue
        parts = {name: int(found[name] or 0) for name in ("month", "day", "hour", "minute", "second")}
        yield from _moment(zone, now, int(found["year"]) if found["year"] else None, parts)


def _named_dates(text: str, now: float) -> Iterator[float]:
    for found in _dated().finditer(text):
        zone = _zone(found["zone"])
        hour = _hour(found["hour"], found["half"])
        if zone is None or hour is None:
            continue
        parts = {
            "month": _MONTHS.index(found["month"]) + 1,
            "day": int(found["day"]),
            "hour": hour,
            "minute": int(found["minute"] or 0),
            "second": 0,
        }
        yield from _moment(zone, now, int(found["year"]) if found["year"] else None, parts)


def _clock_times(text: str, now: float) -> Iterator[float]:
    """Yield the next time a clock shows what a text names: ``resets 6am (Asia/Seoul)``."""
    for found in _clock().finditer(text):
        zone, hour = _zone(found["zone"]), _hour(found["hour"], found["half"])
        minute = int(found["minute"] or 0)
        if zone is None or hour is None or not minute < 60:  # noqa: PLR2004 -- minutes
            continue
        here = _here(now, zone)
        if here is None:
            continue
        then = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
        yield (then if then > here else then + timedelta(days=1)).timestamp()


def _epochs(text: str, now: float) -> Iterator[float]:
    del now
    for found in _epoch().finditer(text):
        yield float(found[1]) + (float(found[2]) / 1000 if found[2] else 0)


def _moment(zone: tzinfo, now: float, year: int | None, parts: Mapping[str, int]) -> Iterator[float]:
    here = _here(now, zone)
    if here is None:
        return
    try:
        then = datetime(year or here.year, **parts, tzinfo=zone)
        if year is None and then < here:
            then = then.replace(year=here.year + 1)
        yield then.timestamp()
    except (ValueError, OverflowError):
        return


def _here(now: float, zone: tzinfo) -> datetime | None:
    try:
        return datetime.fromtimestamp(now, zone)
    except (ValueError, OverflowError, OSError):
        return None


def _hour(text: str, half: str | None) -> int | None:
    hour = int(text)
    if half is not None:
        return hour % 12 + (12 if half == "pm" else 0) if 1 <= hour <= 12 else None  # noqa: PLR2004
    return hour if hour < 24 else None  # noqa: PLR2004 -- hours


def _zone(text: str | None) -> tzinfo | None:
    if not text:
        return None
    name = text.strip("() ")
    if name in {"z", "utc", "gmt"}:
        return UTC
    if found := _offset().fullmatch(name):
        sign = -1 if found["sign"] == "-" else 1
        minutes = int(found["hours"]) * 60 + int(found["minutes"] or 0)
        return timezone(sign * timedelta(minutes=minutes)) if minutes < 24 * 60 else None
    return _named_zone(name)


@cache
def _offset() -> re.Pattern[str]:
    return re.compile(r"(?:utc|gmt)?(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d\d)?")


def _named_zone(name: str) -> tzinfo | None:
    """Return a zone by its name in lower case, None if this system does not know it."""
    spelled = "/".join("_".join(word.capitalize() for word in part.split("_")) for part in name.split("/"))
    try:
        return ZoneInfo(spelled)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return None
    except KeyError:
        return None
