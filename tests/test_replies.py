"""Where thoughts and replies end, and what a reply is without markup and invisible characters."""

import json
import sys
import time

import pytest

from ragrounds.base import replies
from ragrounds.base.replies import Omission, json_objects, plain_text, read_reply
from tests.rows import each_row

THOUGHT = "So it may be A."
CLOSED = {
    "think": "<think>{}</think>",
    "thinking, in capitals": "<THINKING>{}</THINKING>",
    "thought": "<thought>{}</thought>",
    "reasoning": "<reasoning>{}</reasoning>",
    "reasoning_content": "<reasoning_content>{}</reasoning_content>",
    "with an attribute": '<think effort="high">{}</think>',
    "with a prefix": "<seed:think>{}</seed:think>",
    "escaped": "&lt;think&gt;{}&lt;/think&gt;",
    "brackets": "[THINK]{}[/THINK]",
    "begin_of_thought": "<|begin_of_thought|>{}<|end_of_thought|>",
    "start_thinking": "<|START_THINKING|>{}<|END_THINKING|>",
    "triangles": "◁think▷{}◁/think▷",
    "unused tokens": "<unused94>thought\n{}<unused95>",
    "channels": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "channels, with a call": "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.search <|constrain|>json<|message|>{{}}<|call|><|start|>assistant<|channel|>final<|message|>",
    "channels without tokens": "analysis{}assistantfinal",
}


@each_row("form", CLOSED.values())
def test_a_closed_thought_is_left_out(form):
    reply = read_reply(form.format(THOUGHT) + "It is C.")
    assert reply.text == "It is C."
    assert reply.omissions[0].kind == "thought"
    assert THOUGHT.strip("So ") in reply.omissions[0].text
    # The prompt may have opened it.
    if "<|channel|>" not in form and "analysis" not in form:
        end = form.split("{}")[1]
        assert read_reply(f"{THOUGHT}{end}It is C.").text == "It is C."


@each_row("form", CLOSED.values())
def test_an_open_thought_has_no_answer(form):
    reply = read_reply(form.split("{}")[0] + THOUGHT)
    assert reply.text == ""
    assert reply.is_thought
    assert reply.omissions == (Omission("unfinished thought", reply.omissions[0].text),)
    assert reply.omissions[0].text.strip() == THOUGHT
    assert reply.remark.startswith("not read: unfinished thought (")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is C. <think>Or is it", "It is C. "),
        ("<think>A</think>B</think>C", "C"),
        ("<think>A</think>It is C.<think>B</think>", "It is C."),
        ("<think>\n\n</think>\n\nC", "\n\nC"),
        ("A <think/> C", "A <think/> C"),
        ("I think that the thought is C.", "I think that the thought is C."),
        ("The analysis of the urine", "The analysis of the urine"),
        ("analysis of the urine", "analysis of the urine"),
        ('{"reasoning_content": "A?", "content": "It is C."}', "It is C."),
        ('{"reasoning": "A?", "answer": "C"}', '{"reasoning": "A?", "answer": "C"}'),
    ],
)
def test_thoughts_beside_answers(text, answer):
    assert read_reply(text).text == answer


@each_row(
    ("text", "answer", "kind"),
    [
        ("It is C.<|im_end|>", "It is C.", ""),
        ("<|im_start|>assistant\nIt is C.<|im_end|>", "It is C.", ""),
        ("<start_of_turn>model\nIt is C.<end_of_turn>", "It is C.", ""),
        ("<s> It is C.</s>", "It is C.", ""),
        ("It is C.<|eot_id|><|start_header_id|>user<|end_header_id|>\nAnd D?", "It is C.", "later turn"),
        ("It is C.</s>[INST] And D? [/INST] B", "It is C.", "later turn"),
        ("It is C.<｜User｜>And D?<｜Assistant｜>B", "It is C.", "later turn"),
        ("It is C.\n\nHuman: And D?\nAssistant: B", "It is C.", "later turn"),
        ("It is C.\n\n### Instruction:\nName D.", "It is C.", "later turn"),
        ("It is C.\n\nQuestion 2: Which dose?\nAnswer: B", "It is C.", "further question"),
        ("It is C.\n\n**Q:** Which dose?\n**A:** B", "It is C.", "further question"),
        ("选C。\n\n问题：剂量是多少？\n答案：B", "选C。", "further question"),
        ("Q: Which?\nA: C\n\nQ: Which dose?\nA: B", "Q: Which?\nA: C", "further question"),
        ("First:\nQuestion: Which drug is it?\nAnswer: C", "First:\nQuestion: Which drug is it?\nAnswer: C", ""),
        ("The user: a man of 40. His question: which drug?", "The user: a man of 40. His question: which drug?", ""),
    ],
)  # fmt: skip
def test_where_a_reply_ends(text, answer, kind):
    reply = read_reply(text, "Which drug is it?")
    assert reply.text.strip() == answer
    assert [omission.kind for omission in reply.omissions] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Crohn’s „disease“ «here»", 'Crohn\'s "disease" "here"'),
        ("**vitamin** __C__ `x` $y$", "vitamin C x y"),
        ("metho\u200btrexate \u200fC\u200f, C\ufe0f, soft\u00adware", "methotrexate C, C, software"),
        ("ﬁbrosis ＡＢＣ １５", "fibrosis ABC 15"),
        ("【C】「C」", "(C)(C)"),
        (r"\text{C} \textbf{500 mg}", "C 500 mg"),
        ("5 × 10⁹/L, m², 10⁻³", "5 × 10^9/L, m2, 10^-3"),
        ("see [the page](https://example.org/a) <b>now</b>", "see the page now"),
        ("# Answer\n- one\r\n- two", "Answer\none\ntwo"),
        ("snake_case", "snake_case"),
    ],
)
def test_plain_text(text, plain):
    assert plain_text(text) == plain


@pytest.mark.parametrize(
    "part", ["<think>", "</think>", "<think ", "\nQ: ", "<|start|>assistant", "<|channel|>final", "[", "\n#"]
)
def test_hostile_replies_take_little_time(part):
    begin = time.process_time()
    read_reply(part * (200_000 // len(part)))
    assert time.process_time() - begin < 2


HOSTILE_JSON = [
    "{",
    "\\boxed{",
    "{ ",
    "{'",
    '{"',
    '{"answer": ["',
    '{"a":[',
    '{"a":',
    '{"a":"{b',
    '{"a":[{},',
    '{"a": "\\',
]


@pytest.mark.parametrize("part", HOSTILE_JSON)
def test_json_is_looked_for_in_linear_time(part, monkeypatch):
    characters = 0

    class Counting(json.JSONDecoder):
        """Decoder that counts the characters it goes through, and those whose lines it counts for an error."""

        def raw_decode(self, text, begin=0):
            nonlocal characters
            try:
                parsed, end = super().raw_decode(text, begin)
            except json.JSONDecodeError as error:
                characters += error.pos - begin + error.pos * (error.lineno > 1)
                raise
            except RecursionError:
                characters += len(part) * sys.getrecursionlimit()
                raise
            characters += end - begin
            return parsed, end

    class CountingPattern:
        """Pattern of brackets and strings that counts the characters it goes through."""

        def finditer(self, text, begin, end):
            nonlocal characters
            for token in pattern.finditer(text, begin, end):
                characters += token.end() - begin
                begin = token.end()
                yield token
            characters += end - begin

    pattern = replies._BRACKET_OR_STRING
    monkeypatch.setattr(replies, "_BRACKET_OR_STRING", CountingPattern())
    monkeypatch.setattr(json, "JSONDecoder", Counting)
    text = "\n" + part * (10_000 // len(part)) + '"]}\n{\n "a": {}} {} {"b'
    assert [text[start:end] for _, start, end in json_objects(text)][-2:] == ['{\n "a": {}}', "{}"]
    assert characters < 50 * len(text)
