"""One entry of a fallback chain: ``"provider/model[:variant]"`` or ``{ model = "…", variant = "…" }``.

A table may say ``paid = true`` as well: every token of that model costs money.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from fallback_plugin.errors import ModelRefError
from fallback_plugin.model_ref import ModelRef

_KEYS: Final = ("model", "variant", "paid")
_SEVERAL: Final = re.compile(r"[,;]|/.*\s\S*/", re.DOTALL)
"""What no model's name holds: a comma, a semicolon, or a second ``provider/model`` behind white space."""


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """A candidate: the model, and whether it is taken only with ``allow_paid``."""

    model: ModelRef
    paid: bool = False

    def __str__(self) -> str:
        """Return the model's name."""
        return str(self.model)


def chain_entry(entry: object) -> ChainEntry:
    """Return an entry of a chain.

    Raises:
        ModelRefError: as `model_ref` does, and if ``paid`` is neither true nor false.
    """
    if isinstance(entry, ChainEntry):
        return entry
    paid = entry.get("paid", False) if isinstance(entry, Mapping) else False
    if not isinstance(paid, bool):
        raise ModelRefError(f"{paid!r} does not say whether a model is paid; write paid = true")
    return ChainEntry(model_ref(entry), paid)


def model_ref(entry: object) -> ModelRef:
    """Return the model that a chain entry names.

    Raises:
        ModelRefError: if it is neither a model name nor a table with ``model`` and, if wanted, ``variant``.
    """
    if isinstance(entry, ModelRef):
        return entry
    if isinstance(entry, ChainEntry):
        return entry.model
    if isinstance(entry, str):
        return _parsed(entry)
    if not isinstance(entry, Mapping):
        raise ModelRefError(
            f'{entry!r} is not a model; write "provider/model" or {{ model = "provider/model" }}'
        )
    _check_keys(entry)
    name, variant = entry.get("model"), entry.get("variant")
    if not isinstance(name, str):
        raise ModelRefError('a chain entry needs model = "provider/model"')
    ref = _parsed(name)
    if variant is None:
        return ref
    if not isinstance(variant, str) or not variant.strip():
        raise ModelRefError(f'{variant!r} is not a variant; write variant = "high"')
    if ref.variant not in (None, variant.strip()):
        raise ModelRefError(f"{name!r} already names the variant {ref.variant!r}; give it once")
    return replace(ref, variant=variant.strip())


def names_several(entry: object) -> bool:
    """Tell whether an entry is one string, or a table of one, that seems to hold several models."""
    name = entry.get("model") if isinstance(entry, Mapping) else entry
    return isinstance(name, str) and bool(_SEVERAL.search(name.strip()))


def _parsed(text: str) -> ModelRef:
    """Read one model's name; a string that holds several is refused with the list to write in its place."""
    if not names_several(text):
        return ModelRef.parse(text)
    models = [piece for piece in re.split(r"[,;\s]+", text) if "/" in piece]
    if len(models) > 1:
        chain = json.dumps(models, ensure_ascii=False)
        raise ModelRefError(f"{text!r} is several models in one string; write a list: {chain}")
    raise ModelRefError(f"{text!r} is not a model: its name has no comma; write it as provider/model")


def _check_keys(entry: Mapping[object, object]) -> None:
    for key in entry:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "a chain entry has model, variant and paid"
            raise ModelRefError(f"unknown key {key!r} in a chain entry; {hint}")


def chain_entries(value: object) -> object:
    """Return a chain as a list: a single entry stands for a list of one, a list stays as it is.

    Raises:
        ModelRefError: if it is neither.
    """
    if isinstance(value, str | Mapping | ModelRef | ChainEntry):
        return [value]
    if isinstance(value, list | tuple):
        return value
    raise ModelRefError(f'{value!r} is not a chain; write ["provider/model", "provider/model"]')


def repeated_entries(value: object) -> list[tuple[int, ModelRef]]:
    """Return index and model of each entry that repeats an earlier one of the chain."""
    seen: set[ModelRef] = set()
    repeated = []
    entries = chain_entries(value)
    for index, entry in enumerate(entries if isinstance(entries, list | tuple) else ()):
        ref = model_ref(entry)
        if ref in seen:
            repeated.append((index, ref))
        seen.add(ref)
    return repeated
