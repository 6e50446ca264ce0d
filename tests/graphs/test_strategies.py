"""All strategies by one table: what each does on scripted replies, and what holds for every one of them."""

import json
import math
import re
from dataclasses import dataclass, field
from itertools import chain, cycle, repeat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as other

from ragrounds.errors import UserError
from ragrounds.graphs import catalogue, diagram
from ragrounds.graphs.crag import read_scores
from ragrounds.graphs.shapes import read_object, sentences
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Called, Left, Question, Reply, TokenLogprob, Usage
from tests.graphs.playing import ANSWER, CHOICE, LONG, Shelf, passage, play, text_of
from tests.graphs.test_any_model import PIECES, REPLIES

STEM = CHOICE.text
FINAL = "So the final answer is: Heparin."


def follow_up(text):
    return f"Are follow up questions needed here: Yes.\nFollow up: {text}\n"


def said(**keys):
    return json.dumps(keys)


def chosen(letter):
    return said(answer_choice=letter)


    "medagents": said(experts=["a", "no", "b"]), "mdagents": said(experts=["a", "b"], to=[1, 2], message="moderate"),
    "medprompt": chosen("B"),
