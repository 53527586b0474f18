"""The same sequence of events through each way into the plugin ends alike."""
