"""How a turn is sent again: in place, else its parts anew, fewer with each refusal."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallback_plugin.events import AssistantMessage, Message, Part, StoredMessage, UserMessage
from fallback_plugin.fallback.replay import Replay, Tier, in_place, sent_anew, tiers, turn_to_replay
from fallback_plugin.model_ref import ModelRef

FAILED = ModelRef("anthropic", "opus", "high")
NEXT = ModelRef("openai", "gpt", "low")

USER = UserMessage(
    id="msg_1",
    session_id="ses_1",
    model=FAILED,
    created_at=1.0,
    agent="build",
    system="Answer in French.",
    tools={"bash": False},
    format={"type": "json_schema", "schema": {}},
)


def part(kind: str, *, number: int = 1, synthetic: bool = False, **fields: str) -> Part:
    raw: dict[str, Any] = {
        "id": f"prt_{number}",
        "messageID": "msg_1",
        "sessionID": "ses_1",
        "type": kind,
        **fields,
    }
    return Part(id=raw["id"], message_id="msg_1", session_id="ses_1", type=kind, synthetic=synthetic, raw=raw)


TEXT = part("text", text="look at these")
IMAGE = part("file", number=2, mime="image/png", url="data:image/png;base64,AAAA")
PDF = part("file", number=3, mime="application/pdf", url="data:application/pdf;base64,AAAA")
AGENT = part("agent", number=4, name="review")


def sent(tier: Tier) -> list[str]:
    """Return the types a tier sends, images apart from other files."""
    return [
        "image" if str(raw.get("mime", "")).startswith("image/") else str(raw["type"]) for raw in tier.parts
    ]


def bodies(parts: list[Part]) -> list[list[str]]:
    """Return the types of parts of each prompt that follows when the host refuses them all."""
    replay = Replay(USER, NEXT)
    replay.offer(parts)
    found = []
    while prompt := replay.next():
        found.append([str(raw["type"]) for raw in prompt.parts])
    return found


def test_complaint_56_all_parts_go_first_then_text_and_images_then_text() -> None:
    assert [sent(tier) for tier in tiers([TEXT, IMAGE, PDF])] == [
        ["text", "image", "file"],
        ["text", "image"],
        ["text"],
    ]


def test_complaint_56_a_tier_says_what_it_left_out_and_names_files_by_their_media_type() -> None:
    assert [tier.dropped for tier in tiers([TEXT, IMAGE, AGENT])] == [
        frozenset(),
        frozenset({"agent"}),
        frozenset({"image/png", "agent"}),
    ]


def test_a_turn_of_text_alone_is_sent_once() -> None:
    assert [sent(tier) for tier in tiers([TEXT])] == [["text"]]


def test_without_other_files_the_second_tier_would_repeat_the_first() -> None:
    assert [sent(tier) for tier in tiers([TEXT, IMAGE])] == [["text", "image"], ["text"]]


def test_without_images_the_third_tier_would_repeat_the_second() -> None:
    assert [sent(tier) for tier in tiers([TEXT, PDF])] == [["text", "file"], ["text"]]


def test_a_turn_of_images_alone_is_sent_once() -> None:
    assert [sent(tier) for tier in tiers([IMAGE, IMAGE])] == [["image", "image"]]


def test_a_turn_without_text_or_image_is_sent_whole_or_not_at_all() -> None:
    assert [sent(tier) for tier in tiers([PDF, AGENT])] == [["file", "agent"]]


def test_nothing_is_sent_of_a_turn_without_parts() -> None:
    assert tiers([]) == ()


@pytest.mark.parametrize("kind", ["hologram", "subtask", ""], ids=["unknown", "subtask", "empty"])
def test_a_part_of_any_other_type_is_in_the_first_tier_only(kind: str) -> None:
    assert [sent(tier) for tier in tiers([TEXT, part(kind)])] == [["text", kind], ["text"]]


def test_a_part_of_the_type_image_counts_as_an_image() -> None:
    assert [sent(tier) for tier in tiers([TEXT, part("image"), PDF])][1] == ["text", "image"]


@pytest.mark.parametrize("mime", [{}, {"mime": "application/pdf"}, {"mime": "imagery/png"}])
def test_a_file_that_is_no_image_is_not_taken_for_one(mime: dict[str, Any]) -> None:
    assert [sent(tier) for tier in tiers([TEXT, part("file", **mime)])] == [["text", "file"], ["text"]]


def test_a_file_that_names_no_media_type_is_called_a_file() -> None:
    assert tiers([TEXT, part("file")])[-1].dropped == {"file"}


def test_many_texts_all_survive_in_their_order() -> None:
    texts = [part("text", number=number, text=f"line {number}") for number in range(20)]

    last = tiers([*texts, PDF])[-1]

    assert [raw["text"] for raw in last.parts] == [f"line {number}" for number in range(20)]


def test_the_hosts_expansion_of_a_file_is_not_sent() -> None:
    expansion = part("text", synthetic=True, text="Called the Read tool")

    assert [sent(tier) for tier in tiers([TEXT, expansion])] == [["text"]]


def test_the_hosts_compaction_mark_is_not_sent() -> None:
    assert [sent(tier) for tier in tiers([part("compaction"), TEXT])] == [["text"]]


def test_a_part_that_was_never_ours_to_send_is_not_called_dropped() -> None:
    assert [tier.dropped for tier in tiers([part("compaction"), TEXT])] == [frozenset()]


def test_a_part_is_sent_as_it_was_but_for_where_it_was_stored() -> None:
    (tier,) = tiers([IMAGE])

    assert tier.parts == ({"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA"},)


@settings(deadline=None)
@given(st.lists(st.sampled_from([TEXT, IMAGE, PDF, AGENT, part("compaction"), part("hologram")])))
def test_each_tier_is_smaller_than_the_one_before_and_never_empty(parts: list[Part]) -> None:
    sizes = [len(tier.parts) for tier in tiers(parts)]

    assert 0 not in sizes
    assert sizes == sorted(set(sizes), reverse=True)


def test_a_replay_begins_in_place() -> None:
    prompt = Replay(USER, NEXT).first()

    assert (prompt.message_id, prompt.parts) == ("msg_1", ())


def test_a_replay_needs_no_parts_until_the_first_refusal_asks_for_them() -> None:
    replay = Replay(USER, NEXT)
    assert replay.needs_parts

    replay.offer([TEXT])

    assert not replay.needs_parts


def test_before_the_parts_are_known_there_is_nothing_else_to_send() -> None:
    assert Replay(USER, NEXT).next() is None


def test_a_refusal_in_place_leads_to_all_parts_as_a_new_message() -> None:
    replay = Replay(USER, NEXT)
    replay.offer([TEXT, IMAGE])

    prompt = replay.next()

    assert prompt is not None
    assert (prompt.message_id, len(prompt.parts)) == (None, 2)


def test_each_refusal_leads_to_the_next_tier_and_the_last_to_none() -> None:
    assert bodies([TEXT, IMAGE, PDF]) == [["text", "file", "file"], ["text", "file"], ["text"]]


def test_a_turn_that_has_nothing_to_send_ends_after_the_first_refusal() -> None:
    assert bodies([part("compaction")]) == []


@pytest.mark.parametrize(
    ("refusals", "dropped"),
    [(0, set()), (1, {"agent"}), (2, {"agent", "image/png"})],
    ids=["all accepted", "text and images", "text alone"],
)
def test_a_replay_knows_what_the_accepted_prompt_left_out(refusals: int, dropped: set[str]) -> None:
    replay = Replay(USER, NEXT)
    replay.offer([TEXT, IMAGE, AGENT])

    for _ in range(refusals + 1):
        replay.next()

    assert replay.dropped == dropped


def test_what_was_left_out_stays_known_when_all_ways_have_been_tried() -> None:
    replay = Replay(USER, NEXT)
    replay.offer([TEXT, PDF])

    while replay.next():
        pass

    assert replay.dropped == {"application/pdf"}


def test_a_replay_that_stays_in_place_leaves_nothing_out() -> None:
    replay = Replay(USER, NEXT)

    replay.first()

    assert replay.dropped == frozenset()


@pytest.mark.parametrize("way", ["in place", "anew"])
def test_a_turn_keeps_its_agent_system_tools_and_format(way: str) -> None:
    prompt = in_place(USER, NEXT) if way == "in place" else sent_anew(USER, NEXT, Tier(({},)))

    assert (prompt.agent, prompt.system, prompt.tools, prompt.format) == (
        USER.agent,
        USER.system,
        USER.tools,
        USER.format,
    )


@pytest.mark.parametrize("way", ["in place", "anew"])
def test_a_turn_is_sent_to_the_new_model_in_its_own_variant(way: str) -> None:
    prompt = in_place(USER, NEXT) if way == "in place" else sent_anew(USER, NEXT, Tier(({},)))

    assert prompt.model == NEXT


def test_a_turn_without_an_agent_stays_without_one() -> None:
    user = UserMessage(id="msg_1", session_id="ses_1", model=FAILED, created_at=1.0)

    assert in_place(user, NEXT).agent is None


def user_message(number: int, *parts: Part) -> StoredMessage:
    info = UserMessage(id=f"msg_{number}", session_id="ses_1", model=FAILED, created_at=float(number))
    return StoredMessage(info=info, parts=parts)


def answer(number: int, *parts: Part) -> StoredMessage:
    info: Message = AssistantMessage(
        id=f"msg_{number}", session_id="ses_1", parent_id="msg_1", model=FAILED, created_at=float(number)
    )
    return StoredMessage(info=info, parts=parts)


HISTORY = [user_message(1, TEXT), answer(2, TEXT), user_message(3, TEXT, IMAGE), answer(4)]


@pytest.mark.parametrize(
    ("wanted", "found"), [("msg_1", "msg_1"), ("msg_3", "msg_3"), (None, "msg_3"), ("msg_9", "msg_3")]
)
def test_the_turn_to_replay_is_the_named_one_else_the_last(wanted: str | None, found: str) -> None:
    turn = turn_to_replay(HISTORY, wanted)

    assert turn is not None
    assert turn.user.id == found


def test_the_turn_to_replay_comes_with_its_parts() -> None:
    turn = turn_to_replay(HISTORY)

    assert turn is not None
    assert turn.parts == (TEXT, IMAGE)


@pytest.mark.parametrize("parts", [(), (part("compaction"),)], ids=["no parts", "a compaction mark"])
def test_a_message_that_says_nothing_is_passed_over(parts: tuple[Part, ...]) -> None:
    turn = turn_to_replay([*HISTORY, user_message(5, *parts)])

    assert turn is not None
    assert turn.user.id == "msg_3"


def test_a_named_message_is_found_even_if_it_says_nothing() -> None:
    turn = turn_to_replay([*HISTORY, user_message(5)], "msg_5")

    assert turn is not None
    assert turn.user.id == "msg_5"


@pytest.mark.parametrize("history", [[], [answer(2, TEXT)]], ids=["empty", "answers only"])
def test_a_history_without_a_users_message_has_no_turn_to_replay(history: list[StoredMessage]) -> None:
    assert turn_to_replay(history) is None


def test_an_answer_is_never_replayed_even_if_it_is_named() -> None:
    turn = turn_to_replay(HISTORY, "msg_2")

    assert turn is not None
    assert turn.user.id == "msg_3"


def test_parts_are_copied_before_they_are_sent() -> None:
    (tier,) = tiers([TEXT])

    assert tier.parts[0] is not TEXT.raw
