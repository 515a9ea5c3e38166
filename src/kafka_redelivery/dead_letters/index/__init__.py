"""An index of dead letters on this machine: disposable, and brought up to date from the topics."""
