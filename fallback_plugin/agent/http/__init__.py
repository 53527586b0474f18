"""The host over HTTP: OpenCode's calls with OpenCode's shapes, its event stream, and the web page."""
