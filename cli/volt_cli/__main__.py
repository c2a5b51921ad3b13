"""Run `volt` as `python -m volt_cli`."""

from volt_cli.start import main

if __name__ == "__main__":
    main()
