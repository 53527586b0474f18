"""The text of a child session that answered after its parent's ``task`` tool had returned.

Expressed anew: OpenCode 1.18.33 names the child in the result's metadata and in ``<task id="ses_…">``.
Nothing is polled and no status is asked for: the child's own events end the wait, and the hook's deadline
bounds it, after which the result stays as it is. A call that fails is the plugin host's to log, and leaves
the result as it is too.

Shown elsewhere (``tests/fallback/test_plugin.py``): an empty result is filled, the metadata goes first, a
child that still works is waited for, one that never ends, other tools and filled results, a child without
text. ``tests/plugins/test_host_questions.py`` shows the hook's longer time and that a raising plugin is
passed over.
"""

import pytest

from fallback_plugin.events import AssistantMessage, Part, StoredMessage, UserMessage
from fallback_plugin.fallback.task_result import child_awaited, filled, last_answer
from fallback_plugin.hookspecs import ToolCall, ToolResult
from tests.fallback.stage import PRIMARY, A, Stage
from tests.fallback.turns import end

TASK = ToolCall(session_id="ses_1", call_id="call_1", tool="task")


def result(output: str, **metadata: object) -> ToolResult:
    return ToolResult(title="Delegate", output=output, metadata=metadata)


def stored(role: str, *texts: str, kind: str = "text") -> StoredMessage:
    parts = tuple(
        Part(id=f"prt_{n}", message_id="m", session_id="ses_c", type=kind, text=text)
        for n, text in enumerate(texts)
    )
    if role == "user":
        return StoredMessage(
            info=UserMessage(id="m", session_id="ses_c", model=PRIMARY, created_at=1), parts=parts
        )
    info = AssistantMessage(id="m", session_id="ses_c", parent_id="u", model=A, created_at=1)
    return StoredMessage(info=info, parts=parts)


class TestEmptyResult:
    """Whether a result lacks its text."""

    @pytest.mark.parametrize("inside", ["", " ", "\n\n", " \n\t\n "])
    def test_nothing_and_blanks_are_empty(self, inside: str) -> None:
        output = f'<task id="ses_c" state="completed"><task_result>{inside}</task_result></task>'
        assert child_awaited(TASK, result(output)) == "ses_c"

    @pytest.mark.parametrize(
        "output",
        [
            'task id="ses_c" <task_result>text</task_result>',
            'task id="ses_c" <task_result>\n0\n</task_result>',
            'task id="ses_c"',
            'task id="ses_c" <task_result>',
            'task id="ses_c" </task_result>',
            "",
        ],
    )
    def test_text_and_half_a_tag_are_not(self, output: str) -> None:
        assert child_awaited(TASK, result(output)) is None

    @pytest.mark.parametrize("tool", ["bash", "Task", "task_list", ""])
    def test_other_tools_have_no_child(self, tool: str) -> None:
        call = ToolCall(session_id="ses_1", call_id="call_1", tool=tool)
        assert child_awaited(call, result('<task id="ses_c"><task_result></task_result>')) is None


class TestChild:
    """Which child a result is of."""

    EMPTY = "<task_result></task_result>"

    def test_the_reference_form_is_read_too(self) -> None:
        assert child_awaited(TASK, result(f"task_id: ses_abc123\n{self.EMPTY}")) == "ses_abc123"

    def test_the_first_of_several_is_it(self) -> None:
        assert child_awaited(TASK, result(f"task_id: ses_a task_id: ses_b {self.EMPTY}")) == "ses_a"

    @pytest.mark.parametrize("named", ["task_id: abc", "id: ses_a", "ses_a", "task_id ses_a"])
    def test_without_the_words_before_it_an_id_is_none(self, named: str) -> None:
        assert child_awaited(TASK, result(f"{named} {self.EMPTY}")) is None

    @pytest.mark.parametrize("session", ["", None, 7])
    def test_metadata_of_another_kind_leaves_the_word_to_the_text(self, session: object) -> None:
        found = child_awaited(TASK, result(f"task_id: ses_a {self.EMPTY}", sessionId=session))
        assert found == "ses_a"


class TestText:
    """What a child said last."""

    def test_the_newest_answer_counts(self) -> None:
        assert (
            last_answer([stored("assistant", "old"), stored("user", "go on"), stored("assistant", "new")])
            == "new"
        )

    def test_a_message_of_the_users_after_it_is_passed_over(self) -> None:
        assert last_answer([stored("assistant", "done"), stored("user", "thanks")]) == "done"

    def test_its_texts_are_joined_and_empty_ones_left_out(self) -> None:
        assert last_answer([stored("assistant", "one", "", "two")]) == "one\ntwo"

    @pytest.mark.parametrize("history", [[], [stored("user", "hi")], [stored("assistant", " \n ")]])
    def test_without_an_answer_there_is_none(self, history: list[StoredMessage]) -> None:
        assert last_answer(history) is None

    def test_reasoning_is_no_text(self) -> None:
        assert last_answer([stored("assistant", "hm", kind="reasoning")]) is None

    def test_only_the_empty_place_is_filled(self) -> None:
        before = '<task id="ses_c">\n<task_result>\n\n</task_result>\n</task> tail'
        assert filled(result(before), "found").output == before.replace("\n\n", "\nfound\n", 1)

    def test_a_text_that_looks_like_a_pattern_is_copied_as_it_is(self) -> None:
        text = r"\1 \g<0> C:\temp"
        assert text in filled(result("<task_result></task_result>"), text).output

    def test_title_and_metadata_stay(self) -> None:
        given = result("<task_result></task_result>", sessionId="ses_c")
        made = filled(given, "x")
        assert (made.title, made.metadata) == (given.title, given.metadata)


class TestWorking:
    """Until when a parent waits."""

    def child(self) -> Stage:
        stage = Stage(session="ses_c")
        stage.host("session.created", info={"id": "ses_c", "parentID": "ses_1"})
        stage.user()
        stage.answer("msg_2")
        return stage

    def test_a_child_that_streams_still_works(self) -> None:
        stage = self.child()
        stage.content("msg_2")
        assert stage.engine.busy("ses_c")

    def test_an_idle_ends_its_work(self) -> None:
        stage = self.child()
        stage.content("msg_2")
        stage.idle()
        assert not stage.engine.busy("ses_c")

    def test_a_child_that_ended_with_nothing_said_works_on_until_the_next_model_has_answered(self) -> None:
        stage = self.child()
        end(stage, "msg_2")
        stage.idle()
        assert stage.engine.busy("ses_c")

    def test_a_child_nobody_heard_of_does_not_work(self) -> None:
        assert not Stage().engine.busy("ses_unknown")
