"""The flagship plugin: a session keeps working when its model fails."""
