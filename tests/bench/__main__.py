"""Entry point of ``./dev bench``."""

from tests.bench.command import main

if __name__ == "__main__":
    main()
