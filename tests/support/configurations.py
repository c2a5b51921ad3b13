"""Stream configurations that several tests read: one with every form of a step, and the start of
others.
"""

from volt.stream.config.configuration import check_configuration
from volt.stream.config.template_rendering import parse_template

FULL = """\
seed: 3
ends: drop
workers: 2
cache: cache
sources:
  wmt:
    path: [a.tsv, b.tsv]
    weight: {kind: linear, points: [[0, 1], [1e3, 2.5]]}
    shuffle: outputs
    epochs: 2
    block_lines: 1_000
    min_fields: 2
    transforms:
      - skip_blank
      - choice:
        - {weight: 0.95}
        - {weight: 4e-2, transforms: [lower: {fields: [1]}]}
        - weight: 0.01
          transforms: [title]
      - tag: "[BT]"
      - multiply: 3
      - copy: {from: 2, to: 1}
  other:
    path: c.tsv
transforms:
  - length: 100
errors: {on_fault: quarantine, quarantine: bad.jsonl, max_share: 0.1}
"""
WMT = "sources:\n  wmt:\n    path: a.tsv\n"
STEPS = WMT + "    transforms:\n      - skip_blank\n"


def parse_config(text, *, path="stream.yaml", values=None, **options):
    """Return the configuration in a text, whose files need not exist."""
    document = parse_template(text, path=path, values=values)
    return check_configuration(document, check_files=False, **options)
