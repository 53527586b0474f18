"""Our own agent host: sessions that lose nothing, exact cancel, and failures answered in the same run."""
