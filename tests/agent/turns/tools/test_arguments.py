import pytest

from fallback_plugin.agent.turns.tools import BashTool, EditTool, ReadTool, Tool, ToolRefusedError, WriteTool
from fallback_plugin.agent.turns.tools.arguments import read_arguments

SCHEMA = ReadTool().parameters


def test_arguments_are_read() -> None:
    assert read_arguments('{"path": "a", "limit": 5}', SCHEMA) == {"path": "a", "limit": 5}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "should be a JSON object"),
        ("", "'path' is missing"),
        ('{"path": 5}', "'path' should be of type string"),
        ('{"path": ""}', "'path' should be a text that is not empty"),
        ('{"path": "a", "limit": true}', "'limit' should be of type integer"),
        ('{"path": "a", "limit": 0}', "'limit' should be from 1 to 2000"),
        ('{"path": "a", "file": "b"}', "there is no argument 'file': they are path, offset, limit"),
    ],
)
def test_what_is_wrong_is_told(written: str, said: str) -> None:
    with pytest.raises(ToolRefusedError, match=said):
        read_arguments(written, SCHEMA)


@pytest.mark.parametrize(
    "tool", [ReadTool(), WriteTool(), EditTool(), BashTool()], ids=lambda tool: tool.name
)
def test_every_tool_describes_itself(tool: Tool) -> None:
    assert tool.description
    assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])
    assert tool.parameters["additionalProperties"] is False
