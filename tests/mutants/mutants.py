"""Small wrongs done to the guards and the engine, each with the test that must notice."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file of the package.

    Attributes:
        wrong: what the package does then.
        file: path below the package.
        find: text that stands there once.
        replace: what stands there instead.
        killed_by: node id of the test that must fail, below ``tests``.
    """

    wrong: str
    file: str
    find: str
    replace: str
    killed_by: str


RACES: Final = "fallback/test_race_conditions.py::"
ENGINE: Final = "fallback/test_engine.py::"
GUARDS: Final = "fallback/test_guards.py::"
AUTO_RETRY: Final = "fallback/contract/test_auto_retry.py::"
CHAT_MESSAGE: Final = "fallback/contract/test_chat_message.py::"
EVENTS: Final = "fallback/contract/test_events.py::"
MESSAGES: Final = "fallback/contract/test_message_updates.py::"
EXACTLY_ONCE: Final = "fallback/complaints/test_exactly_once.py::"
CHILDREN: Final = "fallback/complaints/test_children_and_notes.py::"
INLINE: Final = "fallback/test_inline.py::"
SETTLING: Final = "fallback/test_settling.py::"

MUTANTS: Final = (
    Mutant(
        wrong="the pending model protects nothing",
        file="fallback/guards.py",
        find="return state.pending is not None and state.pending != model",
        replace="return False",
        killed_by=RACES + "test_race_10_an_error_of_the_primary_is_old_news_while_a_fallback_is_pending",
    ),
    Mutant(
        wrong="the in-flight mark is shared by all sessions",
        file="fallback/guards.py",
        find="        if session_id in self._sessions:\n            return False",
        replace="        if self._sessions:\n            return False",
        killed_by=RACES + "test_race_15_two_sessions_fail_at_once_and_share_nothing",
    ),
    Mutant(
        wrong="the in-flight mark is never given back",
        file="fallback/guards.py",
        find="        self._sessions.discard(session_id)",
        replace="        pass",
        killed_by=RACES + "test_race_06_the_first_fallbacks_failure_takes_the_mark_again_and_moves_on",
    ),
    Mutant(
        wrong="an abort of ours explains errors for ever",
        file="fallback/guards.py",
        find=" and now - self.answered_at < ABORT_GRACE_S",
        replace="",
        killed_by=GUARDS + "test_an_answered_abort_without_an_idle_expires",
    ),
    Mutant(
        wrong="an idle does not close our abort",
        file="fallback/guards.py",
        find="entry.idle_seen = True",
        replace="entry.idle_seen = False",
        killed_by=ENGINE + "TestUsersStop::test_soon_after_our_own_abort",
    ),
    Mutant(
        wrong="the abort is not written down before the call",
        file="fallback/switching.py",
        find=(
            '        if switch.run != "finished":\n'
            "            session.ledger.open(attempt.number, context.now)"
        ),
        replace="",
        killed_by=RACES + "test_race_16_an_abort_is_written_down_before_the_host_is_asked",
    ),
    Mutant(
        wrong="an abort the host refused stays written down",
        file="fallback/switching.py",
        find="session.ledger.withdraw(switch.failed_attempt.number)",
        replace="pass",
        killed_by=AUTO_RETRY + "test_an_abort_the_host_refused_explains_no_later_stop",
    ),
    Mutant(
        wrong="idles are not counted",
        file="fallback/session.py",
        find=" or len(self.idles) > expected",
        replace="",
        killed_by=ENGINE + "TestUsersStop::test_while_our_abort_was_open",
    ),
    Mutant(
        wrong="a stop known while we abort is forgotten",
        file="fallback/session.py",
        find="if self.turn.cancelled:",
        replace="if False:",
        killed_by=ENGINE + "TestUsersStop::test_while_our_abort_was_open",
    ),
    Mutant(
        wrong="an abort that is not ours is a failure like others",
        file="fallback/signals.py",
        find='if context.settings.fallback.on_foreign_abort == "stop":',
        replace="if False:",
        killed_by=EXACTLY_ONCE + "test_complaint_12_no_prompt_after_user_cancel",
    ),
    Mutant(
        wrong="a failed attempt is not marked",
        file="fallback/switching.py",
        find="failure\n        attempt.failed = True\n        plan",
        replace="failure\n        plan",
        killed_by=CHILDREN + "test_complaint_77_the_copy_that_may_not_act_sends_nothing_and_asks_once",
    ),
    Mutant(
        wrong="an older attempt's error is taken for the newest's",
        file="fallback/signals.py",
        find="if attempt is not turn.attempt or attempt.failed or",
        replace="if attempt.failed or",
        killed_by=MESSAGES + "test_a_late_error_of_a_model_the_host_left_by_itself_is_stale",
    ),
    Mutant(
        wrong="a retry before the fallback has begun is the fallback's",
        file="fallback/signals.py",
        find="        if not attempt.begun:\n            return []\n        if",
        replace="        if",
        killed_by=MESSAGES + "test_a_retry_before_the_fallback_has_begun_is_the_old_models",
    ),
    Mutant(
        wrong="a plan is carried out whatever the session runs on meanwhile",
        file="fallback/state.py",
        find="if self.current != plan.failed:",
        replace="if False:",
        killed_by=AUTO_RETRY
        + "test_a_session_moved_while_the_prompt_was_on_its_way_gets_the_duplicate_stopped",
    ),
    Mutant(
        wrong="a cooling model is a candidate",
        file="fallback/state.py",
        find="if self.cooling(model, now):\n            return PassedOver",
        replace="if False:\n            return PassedOver",
        killed_by=ENGINE + "TestSharedHealth::test_a_candidate_closed_elsewhere_is_passed_over",
    ),
    Mutant(
        wrong="one advance more than allowed",
        file="fallback/state.py",
        find="if self.attempts >= max_attempts:",
        replace="if self.attempts > max_attempts:",
        killed_by=ENGINE + "test_at_most_max_attempts_advances_are_made_in_a_turn",
    ),
    Mutant(
        wrong="who has no lease acts all the same",
        file="fallback/switching.py",
        find="        if isinstance(outcome, Failed):\n            session.ledger.answered(",
        replace="        if False:\n            session.ledger.answered(",
        killed_by=CHILDREN + "test_complaint_77_of_two_copies_one_acts",
    ),
    Mutant(
        wrong="a refused lease leaves the mark behind",
        file="fallback/switching.py",
        find=(
            "            self.release(session)\n"
            '            return [Record(session.id, "no switch: another instance has it"'
        ),
        replace='            return [Record(session.id, "no switch: another instance has it"',
        killed_by=CHILDREN + "test_complaint_77_the_copy_that_may_not_act_sends_nothing_and_asks_once",
    ),
    Mutant(
        wrong="a switch that cannot be made leaves the mark behind",
        file="fallback/switching.py",
        find="        restored = self.release(session)\n        shown = ",
        replace="        restored: list[Effect] = []\n        shown = ",
        killed_by=AUTO_RETRY + "test_a_switch_that_fails_leaves_no_model_pending_and_no_mark",
    ),
    Mutant(
        wrong="the end of the chain is said again and again",
        file="fallback/exhaustion.py",
        find="turn.exhaustion_said = True",
        replace="turn.exhaustion_said = False",
        killed_by=MESSAGES + "test_a_chain_at_its_end_is_said_once_even_if_the_host_goes_on_by_itself",
    ),
    Mutant(
        wrong="switched is said at dispatch",
        file="fallback/switching.py",
        find="toasts.switching(failed, failure, attempt.model)",
        replace="toasts.switched(attempt.model)",
        killed_by=EXACTLY_ONCE
        + "test_complaint_06_now_on_is_said_by_the_model_that_answers_and_not_at_dispatch",
    ),
    Mutant(
        wrong="a part of the host's own counts as the model's answer",
        file="fallback/follow.py",
        find='frozenset({"reasoning", "text", "tool"})',
        replace='frozenset({"reasoning", "text", "tool", "step-start"})',
        killed_by=MESSAGES + "test_the_hosts_own_parts_confirm_nothing",
    ),
    Mutant(
        wrong="a finished tool step is taken back and run again",
        file="fallback/follow.py",
        find="turn.tools_done = True",
        replace="turn.tools_done = False",
        killed_by=ENGINE + "TestEmptyAnswer::test_after_a_finished_tool_only_the_empty_answer_goes",
    ),
    Mutant(
        wrong="a tool at work counts as a stall",
        file="fallback/silences.py",
        find="0.0 if attempt.tools_running else ",
        replace="",
        killed_by=ENGINE + "TestStall::test_a_running_tool_is_no_stall",
    ),
    Mutant(
        wrong="an idle ends the wait for the fallback's first word",
        file="fallback/signals.py",
        find=" and not turn.awaiting_result",
        replace="",
        killed_by=EVENTS + "test_an_idle_while_the_fallbacks_first_word_is_awaited_is_no_failure",
    ),
    Mutant(
        wrong="a child is aborted under its parent's wait",
        file="fallback/signals.py",
        find='if session.parent_id is not None and run != "finished":',
        replace="if False:",
        killed_by=CHILDREN + "test_complaint_68_a_failing_child_is_never_aborted_under_its_parents_wait",
    ),
    Mutant(
        wrong="a redirect the host did not take stays in force",
        file="fallback/redirect.py",
        find=" and redirect.model != model",
        replace=" and False",
        killed_by=CHAT_MESSAGE + "test_a_return_the_host_did_not_make_is_undone",
    ),
    Mutant(
        wrong="a request of a turn that the person stopped is sent to the next model",
        file="fallback/inline.py",
        find="None if turn is None or turn.cancelled else turn",
        replace="turn",
        killed_by=INLINE + "test_nothing_is_sent_after_the_persons_stop",
    ),
    Mutant(
        wrong="a request is answered inline while its turn is being replayed",
        file="fallback/inline.py",
        find="    if session.switch is not None:\n        return None\n    if turn is None or turn",
        replace="    if turn is None or turn",
        killed_by=INLINE + "test_nothing_is_sent_while_the_turn_is_being_replayed",
    ),
    Mutant(
        wrong="a request goes to a model that cannot take it as it is",
        file="fallback/inline.py",
        find="    return (model.variant is None or not request.is_fixed) and any(",
        replace="    return True or any(",
        killed_by=INLINE + "test_a_model_out_of_reach_is_left_to_a_replay",
    ),
    Mutant(
        wrong="half an answer is another model's to finish",
        file="fallback/inline.py",
        find='        return self.request.ending != "broken" and _reaches(self.request, plan.model)',
        replace="        return _reaches(self.request, plan.model)",
        killed_by=INLINE + "test_an_answer_that_has_begun_is_no_other_models_to_finish",
    ),
    Mutant(
        wrong="a run of one command is stopped to be sent again",
        file="fallback/owing.py",
        find="    return context.ends_at_idle and session.parent_id is None",
        replace="    return False",
        killed_by=SETTLING + "test_a_run_that_fails_is_neither_stopped_nor_sent_again_while_it_lasts",
    ),
    Mutant(
        wrong="a run goes on asking the model that failed",
        file="fallback/signals.py",
        find='        if run not in {"waiting", "running"}:',
        replace="        if run:",
        killed_by=SETTLING + "test_P3_a_run_that_would_ask_again_is_ended_so_that_it_can_be_settled",
    ),
    Mutant(
        wrong="what another copy sends again is sent twice",
        file="fallback/signals.py",
        find="        if HANDED_ON in error.message and owes(context, session):",
        replace="        if not error.name:",
        killed_by=SETTLING + "test_P3_what_another_copy_has_handed_on_is_its_to_send_again",
    ),
    Mutant(
        wrong="a run ends well with nothing said",
        file="fallback/settling.py",
        find='        return owe(session, turn, empty_answer("stop"), "finished")',
        replace="        return []",
        killed_by=SETTLING + "test_no_answer_is_no_success",
    ),
    Mutant(
        wrong="a run that owes nothing any more is settled again",
        file="fallback/settling.py",
        find="    session.owed = None\n",
        replace="",
        killed_by=SETTLING + "test_a_failure_is_owed_once_whatever_the_host_still_says_of_it",
    ),
)
