"""Small wrongs done to a client's window on a session, each with the test that must notice."""

from typing import Final

from tests.mutants.mutants import Mutant

PAGER: Final = "history/pager.py"
WINDOW: Final = "history/window.py"
CHANGES: Final = "history/events.py"
PAGE: Final = "agent/http/web/history.js"
PAGE_WINDOW: Final = "agent/http/web/history-window.js"
FOR_THE_PAGE: Final = "history/test_vectors.py::test_every_vector_holds_for_the_page"


def vector(name: str) -> str:
    """Return the node id of the test of a vector in Python."""
    return f"history/test_vectors.py::test_a_vector[{name.replace(' ', '-')}]"


HISTORY_MUTANTS: Final = (
    Mutant(
        wrong="an answer counts in any epoch",
        file=PAGER,
        find="operation.epoch != self._epoch or (bound and",
        replace="(bound and",
        killed_by=vector("C3 a reply that comes after a change of epoch is ignored"),
    ),
    Mutant(
        wrong="a failure counts in any epoch",
        file=PAGER,
        find='        if operation.epoch != self._epoch:\n            return "dropped"\n        self._error',
        replace="        self._error",
        killed_by=vector("C4 an ignored failure touches nothing either"),
    ),
    Mutant(
        wrong="a new epoch begins late",
        file=PAGER,
        find="        self._epoch += 1\n",
        replace='        asyncio.get_running_loop().call_soon(setattr, self, "_epoch", self._epoch + 1)\n',
        killed_by=vector("C2 every replacement changes the epoch once, when it is called"),
    ),
    Mutant(
        wrong="a replacement begins no epoch",
        file=PAGER,
        find="        self._begin_epoch()\n        return self._begin(kind",
        replace="        return self._begin(kind",
        killed_by=vector("E21 a forced reload during a page drops the page"),
    ),
    Mutant(
        wrong="loading all begins its epoch with its first answer",
        file=PAGER,
        find="        self._begin_epoch()\n        return self._all_pages(",
        replace="        return self._all_pages(",
        killed_by=vector("C9 of two calls at once, one loads all"),
    ),
    Mutant(
        wrong="loading all leaves a page of before under way",
        file=PAGER,
        find="        if self._operation is not None:\n            self._begin_epoch()\n        operation = ",
        replace="        operation = ",
        killed_by=vector("a page asked for before all is loaded is given up"),
    ),
    Mutant(
        wrong="whose turn it is has no owner",
        file=PAGER,
        find="        if self._operation is operation:\n",
        replace="        if self._operation is not None:\n",
        killed_by=vector("whoever was put aside does not free the place of who is under way"),
    ),
    Mutant(
        wrong="older messages are asked for while something else is under way",
        file=PAGER,
        find='        if self._operation is not None:\n            return _settled("refused")\n',
        replace="",
        killed_by=vector("two calls for older messages at once ask once"),
    ),
    Mutant(
        wrong="a page is laid beside a window that has moved",
        file=PAGER,
        find=" or (bound and not self._window.is_beside(request))",
        replace="",
        killed_by=vector("a page that is no longer beside the window is dropped"),
    ),
    Mutant(
        wrong="two jumps to one place ask twice",
        file=PAGER,
        find="running.kind == kind and running.task is not None",
        replace="False",
        killed_by=vector("two jumps to the start at once ask once"),
    ),
    Mutant(
        wrong="all is loaded twice",
        file=PAGER,
        find='running is not None and running.kind == "ensure_all"',
        replace="False",
        killed_by=vector("C9 a second call while all is being loaded waits and asks for nothing"),
    ),
    Mutant(
        wrong="loading all goes on without a limit",
        file=PAGER,
        find="return None if limit < 1 else ",
        replace="limit = self._page_rows\n        return ",
        killed_by=vector("all is loaded page by page, as many messages as are allowed"),
    ),
    Mutant(
        wrong="loading all counts no bytes",
        file=PAGER,
        find="loaded_bytes += page.size_bytes",
        replace="loaded_bytes += 0",
        killed_by=vector("all is loaded page by page, and no page after the bytes that are allowed"),
    ),
    Mutant(
        wrong="what is said while a page is on its way is not said to it",
        file=PAGER,
        find="for event in operation.events:",
        replace="for event in ():",
        killed_by=vector("a message removed during the page that holds it does not come back"),
    ),
    Mutant(
        wrong="what is said while a page is on its way is said twice to what is held",
        file=PAGER,
        find="if message_of(event) not in held:",
        replace="if True:",
        killed_by=vector(
            "without positions, what the window holds is not appended when the newest page comes"
        ),
    ),
    Mutant(
        wrong="what was said before the request is said to its answer",
        file="history/operation.py",
        find="        self.events.clear()\n",
        replace="",
        killed_by=vector("what was said before the next page of all was asked for is not said to it"),
    ),
    Mutant(
        wrong="events go on into a window that missed some",
        file=PAGER,
        find='            case {"type": "server.events.lost"}:\n                self._is_current = False\n',
        replace='            case {"type": "server.events.lost"}:\n',
        killed_by=vector("after missed events the window is loaded again without anything twice"),
    ),
    Mutant(
        wrong="an event of any session counts",
        file=PAGER,
        find=" or session_of(event) != self.session_id",
        replace="",
        killed_by=vector("another session's compaction changes nothing"),
    ),
    Mutant(
        wrong="another session is shown with the messages of the last one",
        file=PAGER,
        find="Window(session_id=session_id, reverted_to=reverted_to)",
        replace="Window(session_id=session_id, messages=self.messages, older=self._window.older)",
        killed_by=vector("E21 a session made from a long one has nothing older"),
    ),
    Mutant(
        wrong="what both hold stands twice",
        file=WINDOW,
        find="messages = left + right[overlap:] if held is left else left[:split] + right",
        replace="messages = left + right",
        killed_by=vector("what a page and the window both hold stands once"),
    ),
    Mutant(
        wrong="the order of what is laid together is not looked at",
        file=WINDOW,
        find="return messages if _is_ascending(messages) else None",
        replace="return messages",
        killed_by=vector("a page of messages that are newer than the window's start is not believed"),
    ),
    Mutant(
        wrong="a page is believed whatever its order",
        file=WINDOW,
        find=" or not _is_ascending(messages):",
        replace=":",
        killed_by=vector("a page out of order is an error"),
    ),
    Mutant(
        wrong="a page may lead to itself for ever",
        file=WINDOW,
        find="(used is not None and used == following) or ",
        replace="",
        killed_by=vector("a page that leads to itself is an error, and no loop"),
    ),
    Mutant(
        wrong="a revision that went backwards is believed",
        file=WINDOW,
        find="if is_lost or page.revision < window.revision:",
        replace="if is_lost:",
        killed_by=vector("a revision that went backwards is loaded anew"),
    ),
    Mutant(
        wrong="a loss that no event told of is believed",
        file=WINDOW,
        find="if is_lost or page",
        replace="if page",
        killed_by=vector("a history that shrank without a word is loaded anew"),
    ),
    Mutant(
        wrong="a loss that events told of loads everything anew",
        file=WINDOW,
        find=" and not window.is_loss_told",
        replace="",
        killed_by=vector("an undo during a page: what it took is gone, and the page is not in the way"),
    ),
    Mutant(
        wrong="a page from before a loss uses up what told of it",
        file=WINDOW,
        find="is_loss_told=window.is_loss_told and page.revision == window.revision",
        replace="is_loss_told=False",
        killed_by=vector("an undo told before, and a page from before it: the next page does not wonder"),
    ),
    Mutant(
        wrong="a window grows without end upwards",
        file=WINDOW,
        find="cut = without_newest if is_older else without_oldest",
        replace="cut = without_oldest",
        killed_by=vector("a long window gives up its new end when older messages come"),
    ),
    Mutant(
        wrong="a window that gave up its old end goes on from where it was",
        file=WINDOW,
        find="older=cursor, lowest=",
        replace="lowest=",
        killed_by=vector("a long window gives up its old end when new messages come"),
    ),
    Mutant(
        wrong="a window that gave up its new end believes it has it",
        file=WINDOW,
        find="newer=cursor, highest=",
        replace="highest=",
        killed_by=vector("a long window gives up its new end when older messages come"),
    ),
    Mutant(
        wrong="a new message is appended to a window far from the end",
        file=WINDOW,
        find="is_before_end = self.newer is None or (",
        replace="is_before_end = True or (",
        killed_by=vector("E21 a jump to the start of 10,000 messages asks for one page"),
    ),
    Mutant(
        wrong="an old message is appended when it changes",
        file=WINDOW,
        find="return is_after_start and is_before_end",
        replace="return is_before_end",
        killed_by=vector("a message older than the window is not appended when it changes"),
    ),
    Mutant(
        wrong="a message that is put again stands at the end",
        file=CHANGES,
        find="index = _place(window.messages, position)",
        replace="index = len(window.messages)",
        killed_by=vector("a message that was taken away and put again stands where its position says"),
    ),
    Mutant(
        wrong="the cursor goes with the message",
        file=CHANGES,
        find="if right and right[0].cursor is None:",
        replace="if False:",
        killed_by=vector("a cut stays possible where the message is removed that had the cursor"),
    ),
    Mutant(
        wrong="text that the answer held is appended again",
        file=CHANGES,
        find="more if end is None else ",
        replace="more if True else ",
        killed_by=vector("S16 a refresh in mid-stream shows the text from before and goes on with it"),
    ),
    Mutant(
        wrong="text behind a gap is appended",
        file=CHANGES,
        find='return more[known:] if known >= 0 else ""',
        replace="return more[max(known, 0):]",
        killed_by=vector("S16 text behind a gap waits for the whole part"),
    ),
    Mutant(
        wrong="the page counts answers of any epoch",
        file=PAGE,
        find="operation.epoch !== this.#epoch || (bound",
        replace="(bound",
        killed_by=FOR_THE_PAGE,
    ),
    Mutant(
        wrong="the page's turn has no owner",
        file=PAGE,
        find="    if (this.#operation !== operation) return\n",
        replace="",
        killed_by=FOR_THE_PAGE,
    ),
    Mutant(
        wrong="the page lays pages beside a window that has moved",
        file=PAGE,
        find=" || (bound !== null && !windows.isBeside(this.#window, request))",
        replace="",
        killed_by=FOR_THE_PAGE,
    ),
    Mutant(
        wrong="the page holds twice what both hold",
        file=PAGE_WINDOW,
        find="...right.slice(overlap)",
        replace="...right",
        killed_by=FOR_THE_PAGE,
    ),
    Mutant(
        wrong="the page counts a character beyond the first 65,536 as two",
        file=PAGE_WINDOW,
        find="lengths.get(part) ?? [...text].length",
        replace="lengths.get(part) ?? text.length",
        killed_by=FOR_THE_PAGE,
    ),
)
