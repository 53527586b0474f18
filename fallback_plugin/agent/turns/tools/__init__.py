"""The tools a model may ask for, one file each; none of them leaves the project folder."""

from fallback_plugin.agent.turns.tools.bash import BashTool
from fallback_plugin.agent.turns.tools.edit import EditTool
from fallback_plugin.agent.turns.tools.read import ReadTool
from fallback_plugin.agent.turns.tools.tool import Permit, Tool, ToolOutput, ToolRefusedError
from fallback_plugin.agent.turns.tools.write import WriteTool

__all__ = [
    "BashTool",
    "EditTool",
    "Permit",
    "ReadTool",
    "Tool",
    "ToolOutput",
    "ToolRefusedError",
    "WriteTool",
]
