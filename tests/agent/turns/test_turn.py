"""A turn from a person's message to the end of its answer, on a real connection."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from fallback_plugin.agent.turns.hooks import NoHooks
from fallback_plugin.health.closure import Closure
from fallback_plugin.hookspecs import ModelAttempt, PromptRequest
from fallback_plugin.model_ref import ModelRef
from fallback_plugin.wire.message import read_history
from tests.agent.turns.looking import until
from tests.agent.turns.stage import FIRST, SECOND, THIRD, Hooks, stage, stopped_when
from tests.loopback.provider import ScriptedProvider
from tests.loopback.reply import (
    Close,
    Data,
    Head,
    Reply,
    cut,
    error_object,
    hang,
    hang_before_headers,
    reset,
    status,
    stream,
    thinking,
    tool_call,
)

pytestmark = pytest.mark.anyio


def offered(body: Any) -> set[str]:
    """Return the tools that a request offers."""
    return {tool["function"]["name"] for tool in body["tools"]}


def system_of(body: Any) -> str:
    """Return what a request says before anything else."""
    return str(body["messages"][0]["content"])


def kinds(parts: list[dict[str, str]]) -> list[str]:
    return [part["type"] for part in parts]


async def test_an_answer_is_written_down_as_the_host_does(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", stream("Hel", "lo"))
    async with stage(provider, tmp_path) as on:
        run = await on.run("hi")

        (answer,) = on.store.answers(on.session)
        info = answer["info"]
        assert kinds(answer["parts"]) == ["step-start", "text", "step-finish"]
        assert answer["parts"][1]["text"] == "Hello"
        assert set(answer["parts"][1]["time"]) == {"start", "end"}
        assert info["finish"] == "stop"
        assert info["parentID"] == run.message_id
        assert (info["providerID"], info["modelID"], info["agent"]) == ("scripted", "first", "build")
        assert info["tokens"]["total"] == 15
        assert info["time"]["completed"] >= info["time"]["created"]
        assert on.store.ends[run.id].outcome == "completed"
        assert on.journal is not None
        assert on.journal.deltas == ["Hel", "lo"]


async def test_a_stored_turn_is_read_back_by_our_own_reader(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", tool_call("bash", {"command": "echo hi"}), stream("done"))
    async with stage(provider, tmp_path) as on:
        await on.run("hi")

        history = read_history(on.store.messages[on.session])

    assert [part.tool_status for stored in history for part in stored.parts if part.type == "tool"] == [
        "completed"
    ]
    assert len(history) == 3


async def test_the_model_hears_of_the_project_and_of_its_tools(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", stream("x"))
    async with stage(provider, tmp_path) as on:
        await on.run("hi", tools={"bash": False}, system="Be short.")

    body = provider.requests("first")[0].body
    assert str(tmp_path) in body["messages"][0]["content"]
    assert body["messages"][0]["content"].endswith("Be short.")
    assert body["messages"][1] == {"role": "user", "content": "hi"}
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read", "write", "edit"]


async def test_thinking_is_kept_apart_from_the_answer(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", thinking("hm, ", "so", answer="yes"))
    async with stage(provider, tmp_path) as on:
        await on.run("hi")

        (answer,) = on.store.answers(on.session)
        assert [(part["type"], part.get("text")) for part in answer["parts"]][1:3] == [
            ("reasoning", "hm, so"),
            ("text", "yes"),
        ]


async def test_a_tool_runs_between_two_steps(provider: ScriptedProvider, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the answer is 42\n")
    provider.script("first", tool_call("read", {"path": "note.txt"}), stream("It is 42."))
    async with stage(provider, tmp_path) as on:
        run = await on.run("what is it?")

        first, second = on.store.answers(on.session)
        (state,) = on.store.tool_states(on.session)
        assert kinds(first["parts"]) == ["step-start", "tool", "step-finish"]
        assert (first["info"]["finish"], second["info"]["finish"]) == ("tool-calls", "stop")
        assert first["info"]["parentID"] == second["info"]["parentID"] == run.message_id
        assert (state["status"], state["output"]) == ("completed", "1: the answer is 42")

    assert provider.requests("first")[1].roles == ("system", "user", "assistant", "tool")
    assert provider.requests("first")[1].body["messages"][3]["content"] == "1: the answer is 42"


async def test_a_tool_is_known_to_run_before_it_runs(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", tool_call("bash", {"command": "true"}), stream("x"))
    async with stage(provider, tmp_path) as on:
        await on.run()

        waited_for = [part["state"]["status"] for call, part in on.store.log if call == "put_part"]

    assert waited_for == ["pending", "running", "completed"]


async def test_an_answer_cut_at_its_length_runs_no_tool(provider: ScriptedProvider, tmp_path: Path) -> None:
    (head, *rest) = tool_call("bash", {"command": "touch done"})
    provider.script("first", (head, rest[0], *stream(finish="length")[1:]))
    async with stage(provider, tmp_path) as on:
        run = await on.run()

        (answer,) = on.store.answers(on.session)
        assert answer["info"]["finish"] == "length"
        assert [state["status"] for state in on.store.tool_states(on.session)] == ["error"]
        assert on.store.ends[run.id].outcome == "completed"
    assert not (tmp_path / "done").exists()


async def test_a_failed_attempt_is_answered_by_the_next_model_in_the_same_run(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    hooks = Hooks(SECOND)
    provider.script("first", status(429, "Slow down.", {"retry-after": "7"}))
    provider.script("second", stream("Here I am."))
    async with stage(provider, tmp_path, hooks=hooks) as on:
        run = await on.run("hi")

        (answer,) = on.store.answers(on.session)
        assert answer["info"]["modelID"] == "second"
        assert on.store.text(on.session) == "Here I am."
        assert on.store.ends[run.id].outcome == "completed"

    (failure,) = hooks.failures
    assert (failure.model, failure.host_model, failure.tried) == (FIRST, FIRST, (FIRST,))
    assert (failure.ending, failure.error.status_code) == ("refused", 429)
    assert (failure.message_id, failure.agent) == (run.message_id, "build")
    assert failure.reachable == {FIRST, SECOND, THIRD}
    (completed,) = hooks.completed
    assert (completed.outcome, completed.model) == ("completed", SECOND)


@pytest.mark.parametrize(
    ("reply", "ending"),
    [
        (cut("half an answer"), "cut"),
        (reset("half an answer"), "cut"),
        (error_object("half an answer"), "refused"),
        (stream(), "empty"),
        (cut(), "cut"),
    ],
)
async def test_a_failed_attempt_leaves_no_text(
    provider: ScriptedProvider, tmp_path: Path, reply: Reply, ending: str
) -> None:
    hooks = Hooks(SECOND)
    provider.script("first", reply)
    provider.script("second", stream("All of it."))
    async with stage(provider, tmp_path, hooks=hooks) as on:
        await on.run("hi")

        assert on.store.text(on.session) == "All of it."
        assert len(on.store.answers(on.session)) == 1
        calls = [call for call, _ in on.store.log]
        assert calls.index("remove_message") < len(calls) - 1 - calls[::-1].index("append")
    assert [failure.ending for failure in hooks.failures] == [ending]
    assert provider.requests("second")[0].roles == ("system", "user")


async def test_the_chain_goes_on_until_someone_answers(provider: ScriptedProvider, tmp_path: Path) -> None:
    hooks = Hooks(SECOND, THIRD)
    provider.script("first", status(503))
    provider.script("second", status(401))
    provider.script("third", stream("Third time lucky."))
    async with stage(provider, tmp_path, hooks=hooks) as on:
        await on.run("hi")

        assert on.store.text(on.session) == "Third time lucky."
    assert hooks.failures[1].tried == (FIRST, SECOND)


async def test_an_answer_tells_which_models_failed_before_it(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    hooks = Hooks(SECOND, THIRD)
    provider.script("first", status(429, "Slow down.", {"retry-after": "7"}))
    provider.script("second", stream())
    provider.script("third", tool_call("bash", {"command": "true"}), stream("Third."))
    async with stage(provider, tmp_path, hooks=hooks, clock=lambda: 100.0) as on:
        await on.run("hi")

        first, last = on.store.answers(on.session)
    limited, silent = first["info"]["fallbacks"]
    assert limited == {
        "failed": {"providerID": "scripted", "modelID": "first"},
        "next": {"providerID": "scripted", "modelID": "second"},
        "kind": "rate_limit",
        "status": 429,
        "resets": 107_000,
        "message": limited["message"],
        "time": 100_000,
    }
    assert "Slow down." in limited["message"]
    assert (silent["kind"], silent["next"]["modelID"]) == ("empty_response", "third")
    assert "completed" in first["info"]["time"]
    assert "fallbacks" not in last["info"]


async def test_a_failure_after_a_tool_keeps_its_result(provider: ScriptedProvider, tmp_path: Path) -> None:
    hooks = Hooks(SECOND)
    command = {"command": "echo ran >> log.txt"}
    provider.script("first", tool_call("bash", command), status(429))
    provider.script("second", stream("Done."))
    async with stage(provider, tmp_path, hooks=hooks) as on:
        await on.run("hi")

    assert (tmp_path / "log.txt").read_text() == "ran\n"
    assert provider.requests("second")[0].roles == ("system", "user", "assistant", "tool")


@pytest.mark.parametrize("said", [None, "final", ModelRef("elsewhere", "unknown")])
async def test_a_failure_nobody_takes_over_ends_the_turn_with_its_error(
    provider: ScriptedProvider, tmp_path: Path, said: ModelAttempt | None
) -> None:
    provider.script("first", status(401, "Incorrect API key provided."))
    async with stage(provider, tmp_path, hooks=Hooks(said)) as on:  # type: ignore[arg-type]
        run = await on.run("hi")

        (answer,) = on.store.answers(on.session)
        end = on.store.ends[run.id]
    error = answer["info"]["error"]
    assert (end.outcome, end.error) == ("failed", error)
    assert error["name"] == "APIError"
    assert error["data"]["message"] == "Incorrect API key provided."
    assert (error["data"]["statusCode"], error["data"]["isRetryable"]) == (401, False)
    assert "completed" in answer["info"]["time"]
    assert "finish" not in answer["info"]


async def test_report_S20_one_step_is_one_request(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", tool_call("bash", {"command": "true"}), stream("x"))
    async with stage(provider, tmp_path) as on:
        await on.run()
        answers = on.store.answers(on.session)

    assert len(provider.requests()) == len(answers) == 2


async def test_report_E10_a_repeated_call_runs_once(provider: ScriptedProvider, tmp_path: Path) -> None:
    head, call, *rest = tool_call("bash", {"command": "echo ran >> log.txt"})
    assert isinstance(call, Data)
    again = Data(call.text.replace('"index": 0, "id"', '"index": 1, "id"'))
    provider.script("first", (head, call, again, *rest), stream("x"))
    async with stage(provider, tmp_path) as on:
        await on.run()

        assert len(on.store.tool_states(on.session)) == 1
    assert (tmp_path / "log.txt").read_text() == "ran\n"


async def test_a_plugin_names_the_model_before_any_request(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    class Redirecting(NoHooks):
        async def chat_message(self, request: PromptRequest) -> ModelRef | None:
            assert (request.model, request.resolved) == (FIRST, FIRST)
            return SECOND

    provider.script("second", stream("x"))
    async with stage(provider, tmp_path, hooks=Redirecting()) as on:
        run = on.store.activate(await on.runner.prepare(on.store.accept(on.session, "hi", FIRST)))
        await on.runner.run(run, on._steered)

        asked, answer = on.store.messages[on.session]
    assert asked["info"]["model"] == {"providerID": "scripted", "modelID": "second"}
    assert answer["info"]["modelID"] == "second"
    assert provider.requests("first") == []


@pytest.mark.parametrize("rests", [True, False])
async def test_an_answer_tells_of_a_model_that_was_left_alone(
    provider: ScriptedProvider, tmp_path: Path, *, rests: bool
) -> None:
    """A plugin may have other reasons for its choice: then there is nothing to tell."""

    class Redirecting(NoHooks):
        async def chat_message(self, request: PromptRequest) -> ModelRef | None:
            del request
            return SECOND

    closures = {FIRST: Closure(until=160.0, reason="quota", failures=1, closed_at=90.0)} if rests else {}
    provider.script("second", stream("x"))
    async with stage(provider, tmp_path, hooks=Redirecting(), closures=closures, clock=lambda: 100.0) as on:
        run = on.store.activate(await on.runner.prepare(on.store.accept(on.session, "hi", FIRST)))
        await on.runner.run(run, on._steered)

        (answer,) = on.store.answers(on.session)
    note = {
        "failed": {"providerID": "scripted", "modelID": "first"},
        "next": {"providerID": "scripted", "modelID": "second"},
        "kind": "quota",
        "resets": 160_000,
        "time": 100_000,
    }
    assert answer["info"].get("fallbacks") == ([note] if rests else None)


async def test_a_prompt_without_a_model_runs_on_the_first_that_is_set(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    async with stage(provider, tmp_path) as on:
        run = await on.runner.prepare(on.store.accept(on.session, "hi"))

    assert run.prompt.model == FIRST


async def test_without_any_model_the_turn_says_what_to_do(provider: ScriptedProvider, tmp_path: Path) -> None:
    async with stage(provider, tmp_path, models={}) as on:
        run = on.store.activate(await on.runner.prepare(on.store.accept(on.session, "hi")))
        await on.runner.run(run, on._steered)

        assert on.store.ends[run.id].outcome == "failed"
        assert "[providers" in str(on.store.ends[run.id].error)


async def test_a_prompt_joins_between_two_steps(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", tool_call("bash", {"command": "true"}), stream("Both done."))
    async with stage(provider, tmp_path) as on:
        run = on.store.ask(on.session, "first thing", FIRST)
        on.steer("and another")
        await on.runner.run(run, on._steered)

        answers = on.store.answers(on.session)
        assert answers[0]["info"]["parentID"] == run.message_id
        assert answers[1]["info"]["parentID"] != run.message_id
    said = [message["content"] for message in provider.requests("first")[1].body["messages"]]
    assert any("and another" in each for each in said)


async def test_a_prompt_that_joins_at_the_end_is_answered(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", stream("One."), stream("Two."))
    async with stage(provider, tmp_path) as on:
        run = on.store.ask(on.session, "first thing", FIRST)
        on.steer("and another")
        await on.runner.run(run, on._steered)

        assert on.store.text(on.session) == "One.Two."


async def test_a_prompt_that_joins_brings_its_model_its_system_and_its_tools(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", tool_call("bash", {"command": "true"}))
    provider.script("second", tool_call("read", {"path": "x"}), stream("Done."))
    async with stage(provider, tmp_path) as on:
        run = on.store.ask(on.session, "first thing", FIRST, system="Be brief.", tools={"write": False})
        on.steer("another", SECOND, system="Rhyme.", tools={"bash": False}, agent="poet")
        await on.runner.run(run, on._steered)

        infos = [answer["info"] for answer in on.store.answers(on.session)]
        assert [info["modelID"] for info in infos] == ["first", "second", "second"]
        assert [info["agent"] for info in infos] == ["build", "poet", "poet"]
    (before,), (after, last) = provider.requests("first"), provider.requests("second")
    assert [offered(request.body) for request in (before, after, last)] == [
        {"read", "edit", "bash"},
        *[{"read", "write", "edit"}] * 2,
    ]
    assert [system_of(request.body).rpartition("\n")[2] for request in (before, after)] == [
        "Be brief.",
        "Rhyme.",
    ]


async def test_where_a_prompt_that_joins_says_nothing_all_stays(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", status(429))
    provider.script("second", tool_call("bash", {"command": "true"}), stream("Done."))
    hooks = Hooks(SECOND)
    hooks.chosen[None] = THIRD
    async with stage(provider, tmp_path, hooks=hooks) as on:
        run = on.store.ask(on.session, "first thing", FIRST, system="Be brief.", tools={"write": False})
        on.steer("and another")
        await on.runner.run(run, on._steered)

        assert on.store.ends[run.id].outcome == "completed", "the model it has fallen back to goes on"
    before, after = provider.requests("second")
    assert system_of(after.body) == system_of(before.body)
    assert offered(after.body) == offered(before.body)


async def test_a_plugin_chooses_the_model_of_a_prompt_that_joins(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", tool_call("bash", {"command": "true"}))
    provider.script("third", stream("Done."))
    hooks = Hooks()
    hooks.chosen[SECOND] = THIRD
    resting = Closure(until=160.0, reason="quota", failures=1, closed_at=90.0)
    async with stage(provider, tmp_path, hooks=hooks, closures={SECOND: resting}) as on:
        run = on.store.ask(on.session, "first thing", FIRST)
        on.steer("and another", SECOND)
        await on.runner.run(run, on._steered)

        (note,) = on.store.answers(on.session)[-1]["info"]["fallbacks"]
        assert (note["failed"]["modelID"], note["next"]["modelID"]) == ("second", "third")
    assert provider.requests("second") == []


async def test_a_model_that_goes_round_in_circles_is_stopped(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", tool_call("bash", {"command": "echo ran >> log.txt"}))
    async with stage(provider, tmp_path) as on:
        run = await on.run()

        end = on.store.ends[run.id]
        assert end.outcome == "failed"
        assert "with the same arguments" in str(end.error)
    assert (tmp_path / "log.txt").read_text() == "ran\n" * 5


async def test_report_E11_a_turn_has_a_budget_of_steps(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.script("first", *(tool_call("bash", {"command": f"true {number}"}) for number in range(9)))
    async with stage(provider, tmp_path, max_steps=4) as on:
        run = await on.run()

        assert "4 steps" in str(on.store.ends[run.id].error)
    assert len(provider.requests("first")) == 4


@pytest.mark.parametrize("reply", [hang_before_headers(), hang("half an answer")])
async def test_a_silent_model_is_given_up_and_the_next_one_answers(
    provider: ScriptedProvider, tmp_path: Path, reply: Reply
) -> None:
    hooks = Hooks(SECOND)
    provider.script("first", reply)
    provider.script("second", stream("Here."))
    async with stage(provider, tmp_path, hooks=hooks) as on:

        async def give_up() -> None:
            await on.until(lambda: bool(provider.requests("first")))
            await until(lambda: reply[0] != Head() or bool(on.store.text(on.session)))
            on.giving_up.give_up(on.session, "build", flowing=True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_up)
            await on.run()

        assert on.store.text(on.session) == "Here."
        await on.until(on.disconnected)
    assert [failure.ending for failure in hooks.failures] == ["silent"]


@pytest.mark.parametrize("reply", [hang_before_headers(), hang("half an answer")])
async def test_report_S18_a_stop_closes_the_providers_stream(
    provider: ScriptedProvider, tmp_path: Path, reply: Reply
) -> None:
    hooks = Hooks(SECOND)
    provider.script("first", reply)
    async with stage(provider, tmp_path, hooks=hooks) as on:
        run = on.store.ask(on.session, "hi", FIRST)
        half = len(reply) == 4

        async def moment() -> None:
            await on.until(lambda: bool(provider.requests("first")))
            await until(lambda: not half or bool(on.store.text(on.session)))

        await stopped_when(lambda: on.runner.run(run, on._steered), moment)
        await on.until(on.disconnected)

        (answer,) = on.store.answers(on.session)
        assert answer["info"]["error"] == {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
        assert "finish" not in answer["info"]
        assert "completed" in answer["info"]["time"]
        assert on.store.text(on.session) == ("half an answer" if half else "")
        assert on.store.ends[run.id].outcome == "cancelled"
    assert hooks.failures == []


async def test_an_answer_that_is_nested_too_deep_is_told_as_an_answer_out_of_form(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    provider.script("first", (Head(), Data("[" * 100_000), Close()))
    async with stage(provider, tmp_path) as on:
        await on.run()

        error = on.store.answers(on.session)[-1]["info"]["error"]
    assert "RecursionError" not in str(error)
    assert "the answer is no stream of JSON events" in error["data"]["message"]
