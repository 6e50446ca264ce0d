"""How people and models word an answer: templates in our own words, each with what a careful reader takes from it.

``@L`` is the label of the option that is meant, ``@l`` the same in lower case, ``@T`` its text and ``@t`` that text
with a small first letter; ``@W`` ``@w`` ``@V`` ``@v`` and ``@X`` ``@x`` ``@Y`` ``@y`` are two other options. A template
is expected to be read as ``@L``, or, in the lists of traps, as no option at all.

Half of the templates (:func:`held_out`, by a hash of the template) are kept from whoever works at the reader: their
failures are counted and not looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from ragrounds.records import Question

NUTRITION = Question(
    id="phrasing/nutrition", benchmark="phrasing", text="Gums bleed after months at sea. What is it?",
    options={"A": "Rickets", "B": "Scurvy", "C": "Pellagra", "D": "Beriberi"},
)  # fmt: skip
PRESSURE = Question(
    id="phrasing/pressure", benchmark="phrasing", text="A loud second heart sound is heard. What is it?",
    options={"A": "Hypertension", "B": "Pulmonary hypertension", "C": "Aortic stenosis", "D": "Mitral stenosis"},
)  # fmt: skip
NEXT_STEP = Question(
    id="phrasing/step", benchmark="phrasing", text="What is done next?",
    options={
        "A": "Start intravenous heparin", "B": "Order a chest radiograph", "C": "Give oral amoxicillin",
        "D": "Reassure the patient", "E": "Refer to a surgeon",
    },
)  # fmt: skip
TRIAL = Question(
    id="phrasing/trial", benchmark="phrasing", text="Does zinc shorten a cold?",
    options={"A": "yes", "B": "no", "C": "maybe"},
)  # fmt: skip
DOSE = Question(
    id="phrasing/dose", benchmark="phrasing", text="Which dose is usual?",
    options={"A": "5 mg", "B": "10 mg", "C": "15 mg", "D": "50 mg"},
)  # fmt: skip
CHINESE = Question(
    id="phrasing/chinese", benchmark="phrasing", text="牙龈出血，最可能的诊断是？", language="zh",
    options={"A": "佝偻病", "B": "坏血病", "C": "糙皮病", "D": "脚气病"},
)  # fmt: skip

SAID = r"""
I think it is @L.
I think it's @L
I think @L.
I believe it is @L.
I believe the answer is @L.
I believe that it's @L.
I'd say @L.
I would say it's @L.
I would go with @L.
I'd go with @L here.
I'll go with @L.
I'm going with @L.
Going with @L.
Let's go with @L.
My guess is @L.
My guess would be @L.
My best guess: @L
I guess @L.
I'm guessing @L.
I suspect it's @L.
I reckon it's @L.
I choose @L.
I pick @L.
I'd pick @L.
I would pick option @L.
I select @L.
I vote for @L.
My pick is @L.
My choice is @L.
My choice: @L
My final answer is @L.
My final answer: **@L**
My answer: @L
My answer is option @L.
Final answer: @L
Final answer - @L
Final Answer: (@L)
FINAL ANSWER: @L
Answer: @L
Answer - @L
ANSWER @L
Answer is @L
Ans: @L
Ans. @L
A: the answer is @L.
The answer is @L.
The answer is (@L).
The answer is option @L.
The answer would be @L.
The answer must be @L.
The answer should be @L.
The answer is clearly @L.
The answer is most likely @L.
The answer is probably @L.
The answer here is @L.
The answer to this question is @L.
The answer, I think, is @L.
The correct answer is @L.
The correct answer is: @L
The correct answer: @L.
The correct option is @L.
The correct choice is @L.
The correct choice would be @L.
The right answer is @L.
The right one is @L.
The best answer is @L.
The best choice is @L.
The best option here is @L.
The most likely answer is @L.
The most appropriate answer is @L.
Correct answer: @L
Correct answer @L
Correct option: @L
Correct: @L
Right answer: @L
Best answer: @L.
Solution: @L
Selected option: @L
Selection: @L
Choice: @L
Choice @L.
Option @L
Option @L.
Option @L!
Option (@L)
option @L is right
Option @L is correct.
Option @L is the answer.
Option @L is the best choice.
Option @L is the most likely.
Option @L seems most likely.
Option @L looks right to me.
Option @L fits best.
Option @L it is.
Answer choice @L is correct.
Choice @L is the correct answer.
Letter @L.
The letter is @L.
@L
@L.
@L!
(@L)
(@L).
[@L]
"@L"
'@L'
“@L”
@L)
@L:
**@L**
**@L.**
*@L*
__@L__
`@L`
# @L
> @L
- @L
=> @L
-> @L
→ @L
✅ @L
$@L$
$\\boxed{@L}$
\\boxed{\\text{@L}}
\\(\\boxed{@L}\\)
\\text{@L}
$\\text{@L}$
\\textbf{@L}
The answer is $\\mathbf{@L}$.
The answer is **@L**.
The answer is *@L*.
The answer is "@L".
The answer is `@L`.
**Answer:** @L
**Answer: @L**
**Answer**: @L
**Final answer:** **@L**
### Answer\n@L
## Final Answer\n\n**@L**
Answer:\n@L
Answer:\n\n@L
The answer is:\n@L
The correct answer is:\n\n**@L) @T**
@L) @T
@L. @T
(@L) @T
@L: @T
@L - @T
@L – @T
@L @T
**@L. @T**
**@L)** @T
@L. @T.
@L) @T because the findings fit.
@L. @T. This fits the findings best.
@L, @t
@L (@T)
@L = @T
Option @L: @T
Option @L (@T)
Option @L, @t.
Answer: @L. @T
Answer: @L) @T
The answer is @L. @T
The answer is @L) @T.
The answer is @L: @T.
The answer is @L, @t.
The answer is @L (@T).
The correct answer is **@L. @T**.
The correct answer is (@L) @T.
The correct answer is option @L: @T.
I think it is @L) @T.
I think the answer is @L, @t.
I would choose @L (@T).
@L, because the findings fit.
@L because it fits best.
@L since the others do not fit.
@L, since nothing else explains it.
@L due to the history.
@L, as the history suggests.
@L - it explains everything.
@L. The history fits.
@L\n\nThe history fits.
@L\nBecause the history fits.
@L is correct.
@L is correct
@L is right.
@L is the answer.
@L is the correct answer.
@L is the correct option.
@L is the right choice.
@L is the best answer.
@L is the best option.
@L is my answer.
@L is my final answer.
@L is my choice.
@L is most likely.
@L is the most likely.
@L is the most likely answer.
@L is the most appropriate choice.
@L is probably right.
@L is clearly the best answer.
@L seems right.
@L seems most likely.
@L seems to be correct.
@L looks best.
@L looks correct.
@L fits best.
@L makes the most sense.
@L would be my answer.
@L would be correct.
@L would be the best choice.
@L must be right.
@L should be the answer.
@L it is.
@L for sure.
@L, definitely.
@L, I think.
@L I think
@L, most likely.
@L, probably.
@L, of course.
(@L) is correct
(@L) is the answer.
(@L) seems right.
"@L" is correct.
**@L** is correct.
It is @L.
It is (@L).
It's @L.
It's **@L**.
Its @L
It's option @L.
It's most likely @L.
It's most likely @L
It's probably @L.
It is probably option @L.
It is clearly @L.
It's definitely @L.
It's gotta be @L.
It has to be @L.
It must be @L.
It should be @L.
It would be @L.
It seems to be @L.
It appears to be @L.
It could only be @L.
That would be @L.
That is @L.
That's @L.
This is @L.
This would be @L.
This must be @L.
Must be @L.
Has to be @L.
Should be @L.
Probably @L.
Probably @L
Most likely @L.
Most likely @L
Likely @L.
Definitely @L.
Definitely @L!
Clearly @L.
Certainly @L.
Obviously @L.
Surely @L.
Maybe @L.
Perhaps @L.
Possibly @L.
Likely option @L.
Most probably @L.
So @L.
So, @L.
So it's @L.
So it is @L.
So the answer is @L.
Thus @L.
Thus, @L.
Thus, the answer is @L.
Hence @L.
Hence, option @L.
Therefore @L.
Therefore, @L.
Therefore, it is @L.
Therefore the correct choice is @L.
In conclusion, @L.
In conclusion, the answer is @L.
Overall, I would choose @L.
In summary, option @L is correct.
To conclude: @L.
Ultimately, I'd choose @L.
All things considered, @L.
Hmm, @L?
Hmm, I think @L.
Well, it's @L.
OK, @L.
Ok: @L
Sure! The answer is @L.
Sure, it's @L.
Sure: @L
Great question! It is @L.
Yes, it's @L.
Easy: @L.
Easy, @L.
Good question. I would choose @L.
Happy to help! The correct answer is @L.
Based on the passages, the answer is @L.
Based on the documents, I think it is @L.
Based on the evidence, @L.
Based on the information given, option @L is the best answer.
According to the guideline, @L is correct.
Given the history, it's @L.
Given the history, @L is most likely.
Given these findings, I'd choose @L.
From the context, the answer is @L.
In my opinion, it is @L.
In my opinion, @L.
In my view the answer is @L.
To me, @L is the best answer.
Personally, I would pick @L.
As far as I know, it's @L.
As far as I can tell, the answer is @L.
I'm fairly sure it's @L.
I'm pretty sure it is @L.
I am confident that the answer is @L.
I'm confident it's @L.
I am sure it is @L.
I'm not sure, but I think it's @L.
Not sure, but @L.
I don't know, but my guess is @L.
I'm not a doctor, but I'd say @L.
This is not medical advice, but the answer is @L.
It's hard to say, but I'd choose @L.
It isn't easy, but I believe it's @L.
If I had to choose, I would say @L.
If I had to pick one, I'd go with @L.
If forced to choose: @L.
If I must choose, then @L.
Without more information I'd go with @L.
Not @W but @L.
Not @W, but @L.
It is not @W, it is @L.
It's not @W; it's @L.
It isn't @W. It's @L.
@L, not @W.
@L rather than @W.
@L instead of @W.
@L, and not @W.
The answer is @L, not @W.
The answer is not @W but @L.
I choose @L over @W.
I would choose @L rather than @W.
I think it's @L, not @W.
@W is wrong. @L is right.
@W is wrong, @L is right.
@W is incorrect, so it is @L.
@W is incorrect; the answer is @L.
@W and @X are wrong, so the answer is @L.
@W and @X can be ruled out. It's @L.
We can rule out @W and @X. That leaves @L.
By elimination, @L.
By elimination, the answer is @L.
I can exclude @W. So it's @L.
Unlike @W, option @L explains it. The answer is @L.
@W is tempting, but @L is correct.
@W is tempting, but the answer is @L.
@W might seem right, but I think it's @L.
Many would say @W, but the answer is @L.
At first I thought @W, but it is @L.
I was going to say @W, but the answer is @L.
First I thought of @W. Actually, it's @L.
I think it's @W. No, wait, it's @L.
The answer is @W. Wait, no: the answer is @L.
@W? No. The answer is @L.
Some people choose @W. The correct answer is @L.
@W would be right in a child. Here the answer is @L.
@W) @V: wrong.\n@X) @Y: wrong.\n@L) @T: right.\nThe answer is @L.
@W. @V - does not fit.\n@L. @T - fits.\n\nAnswer: @L
Let me think step by step. The history is typical. So the answer is @L.
Step 1: read the history.\nStep 2: weigh the options.\nAnswer: @L
Reasoning: the findings are typical.\nFinal answer: @L
Explanation: the findings are typical.\n\nCorrect answer: @L. @T
The findings are typical.\n\n@L
The findings are typical.\n\n**@L**
The findings are typical.\n\n(@L)
The findings are typical. Therefore, (@L).
The findings are typical of @T. So, the answer is @L.
The findings are typical, so I think it is @L.
The findings are typical, hence @L.
The findings are typical, which makes @L the best answer.
The findings are typical, so @L is correct.
The findings are typical and point to @L.
This points to @L.
Everything points to option @L.
The findings support @L.
The evidence supports option @L.
The documents support @L.
I agree with @L.
I lean toward @L.
I lean towards @L.
I'm leaning towards @L.
I would opt for @L.
I'd settle on @L.
I'll take @L.
I'll choose @L.
I will select option @L.
I am choosing @L.
I have chosen @L.
I chose @L.
We choose @L.
We pick @L.
We conclude that the answer is @L.
We can conclude that it is @L.
Choose @L.
Pick @L.
Select @L.
Go with @L.
Go for @L.
Mark @L.
@L - final answer.
@L (final answer)
@L, final answer.
@L is what I would choose.
@L is the one.
@L is the one I'd pick.
@L wins.
@L all the way.
@L.\n@L.
@L @L
The answer is @L. Again: @L.
{"answer": "@L"}
{"answer_choice": "@L"}
{"answer": "@L. @T"}
{"answer": "Option @L"}
{"final_answer": "(@L)"}
{"choice": "@L", "why": "fits"}
{"step_by_step_thinking": "The findings fit.", "answer_choice": "@L"}
{"reasoning": "Not @W.", "answer": "@L"}
```json\n{"answer": "@L"}\n```
{'answer': '@L'}
{"answer": "@L",
{answer: "@L"}
{"answer": ["@L"]}
{"selected_option": "@L"}
{"prediction": "@L"}
{"label": "@L"}
answer=@L
answer = @L
answer: @L
<answer>@L</answer>
<answer>@L. @T</answer>
<answer> @L </answer>
<final_answer>@L</final_answer>
<think>It may be @W.</think>@L
<think>It may be @W.</think>I think it is @L.
<think>@W or @X?</think>The answer is @L.
The answer is @L</s>
The answer is @L<|im_end|>
Ｏｐｔｉｏｎ ＠L
The answer is （@L）.
""".replace("＠L", "@L")
"""Read as ``@L``, whatever the options are."""

SMALL = r"""
(@l)
@l)
@l
@l.
I think it's (@l).
I think the answer is @l.
the answer is @l
answer: @l
i would go with @l
option @l
The correct answer is @l) @t
its @l
probably @l
i think @l
"""
"""The letter in lower case."""

TEXT = r"""
@T
@T.
@t
**@T**
"@T"
@T!
I think it is @t.
I think it's @t.
I think this is @t.
I believe it is @t.
I'd say @t.
It is @t.
It's @t.
It's most likely @t.
It is probably @t.
This is @t.
This is most likely @t.
This patient has @t.
The patient most likely has @t.
She has @t.
The diagnosis is @t.
The most likely diagnosis is @t.
The most likely diagnosis is **@t**.
The diagnosis would be @t.
Most likely @t.
Probably @t.
Likely @t
@T is the most likely diagnosis.
@T is most likely.
@T is the answer.
@T is correct.
@T is the correct answer.
@T, because the findings fit.
@T because the findings fit.
@T - it explains everything.
@T (fits the history)
@T, I think.
The answer is @t.
The answer is @T.
The answer is @t because the findings fit.
The answer is @t, which explains the findings.
The correct answer is "@T".
The correct answer is @T, not @V.
The best answer is @t.
My answer: @T
Answer: @T
Final answer: **@T**
My final answer is @t.
I would choose @t.
I choose "@T".
I'd go with @t.
I am going with @t.
My diagnosis: @t.
Diagnosis: @T
The findings are typical of @t.
The findings are consistent with @t.
The findings suggest @t.
This suggests @t.
This is consistent with @t.
This points to @t.
So it is @t.
Therefore, the diagnosis is @t.
Thus @t.
In conclusion, this is @t.
Based on the history, this is @t.
Given the history, @t is the most likely diagnosis.
It is not @v; it is @t.
Not @v, but @t.
@T rather than @v.
@T, not @v.
The answer is @t rather than @v.
@V is unlikely. The diagnosis is @t.
{"answer": "@T"}
{"answer_choice": "@T"}
\\boxed{@T}
\\boxed{\\text{@T}}
<answer>@T</answer>
The history is typical.\n\n@T
The history is typical.\n\nAnswer: @T
The history is typical. It must be @t.
"""
"""An option's text in place of its label, where that is a diagnosis."""

STEP = r"""
@T
@T.
I would @t.
I'd @t.
You should @t.
The next step is to @t.
The best next step is to @t.
Next, @t.
Answer: @T
The answer is: @t.
**@T**
{"answer": "@T"}
@T because nothing else helps.
"""
"""An option's text in place of its label, where that is something to do."""

DECIDED = r"""
@T
@T.
@t
@T!
@T, the trial supports it.
@T, based on the documents.
@T. Several trials were found.
**@T**
Answer: @T
Answer: @t.
The answer is @t.
The answer is "@t".
The answer is **@t**.
The answer to the question is @t.
My answer is @t.
I would say @t.
I'd say @t.
I think the answer is @t.
Final answer: @t
The final answer is @t because the trials agree.
The correct answer is @t.
So the answer is @t.
{"answer": "@t"}
{"answer": "@T"}
\\boxed{@t}
<answer>@t</answer>
Three trials were found.\n\n@T
"""
"""An option's text where the options are yes, no and maybe."""

AMOUNT = r"""
@T
@T.
The answer is @t.
The usual dose is @t.
I would say @t.
I think it is @t.
It is @t.
**@T**
Answer: @T
@T is the usual dose.
@T, because more does harm.
{"answer": "@T"}
"""
"""An option's text where the options are amounts."""

ZH_SAID = r"""
@L
@L。
（@L）
【@L】
答案：@L
答案是@L
答案是@L。
答案为@L。
答案：@L。@T
答案选@L。
答案应该是@L。
答案应为@L。
正确答案是@L。
正确答案：@L
正确答案为@L，@T。
正确选项是@L。
正确选项为@L
参考答案：@L
最终答案：@L
最佳答案是@L。
我的答案是@L。
我选@L。
我选择@L。
我会选@L。
我认为是@L。
我认为选@L。
我认为答案是@L。
我觉得是@L。
我觉得应该选@L。
我想是@L。
应该是@L。
应选@L。
应该选择@L。
故选@L。
故答案为@L。
故本题选@L。
本题选@L。
本题答案为@L。
此题选@L。
因此选@L。
因此，答案是@L。
所以选@L。
所以答案是@L。
所以是@L。
综上，选@L。
综上所述，答案为@L。
综上所述，正确答案是@L。
最可能是@L。
很可能是@L。
可能是@L。
大概是@L。
选@L
选@L。
选择@L。
选项@L
选项@L。
选项@L正确。
选@L，因为症状符合。
@L，因为症状符合。
@L，@T
@L. @T
@L、@T
@L：@T
（@L）@T
@L项正确。
@L项是正确的。
@L选项正确。
@L选项是正确答案。
@L是正确的。
@L是正确答案。
@L正确。
@L对。
不是@W，是@L。
不选@W，选@L。
@W错误，@L正确。
@W项错误，故选@L。
排除@W和@X，选@L。
根据资料，答案是@L。
根据资料，应选@L。
根据症状，最可能是@L。
分析：症状典型。答案：@L
解析：症状典型，故选@L。
症状典型。\n\n@L
{"answer": "@L"}
{"答案": "@L"}
**答案：@L**
**@L. @T**
"""

ZH_TEXT = r"""
@T
@T。
答案是@T。
答案：@T
正确答案是@T。
我认为是@T。
我觉得是@T。
应该是@T。
诊断是@T。
诊断为@T。
最可能的诊断是@T。
最可能是@T。
考虑@T。
患者患有@T。
这是@T。
不是@V，是@T。
所以是@T。
因此，诊断为@T。
{"answer": "@T"}
**@T**
"""

ELSEWHERE = r"""
Die Antwort ist @L.
Die richtige Antwort ist @L.
Die richtige Antwort lautet @L.
Antwort: @L
Ich denke, es ist @L.
La respuesta es @L.
La respuesta correcta es @L.
Respuesta: @L
Creo que es @L.
La réponse est @L.
La bonne réponse est @L.
Réponse : @L
Je pense que c'est @L.
A resposta é @L.
A resposta correta é @L.
La risposta è @L.
La risposta corretta è @L.
"""
"""German, Spanish, French, Portuguese, Italian."""

TRAPS = r"""
@L or @W
@L or @W.
@L and @W
@L and @W.
@L, @W
@L/@W
@L & @W
@L, @W and @X
@L or @W, I think.
Either @L or @W.
It is either @L or @W.
It's @L or @W.
It is either @L or @W; I cannot decide.
I think it's @L or @W.
I think it is @L or possibly @W.
I think @L and @W are both right.
Both @L and @W are correct.
Both @L and @W.
The answer is @L or @W.
The answer is @L and @W.
The answer is @L/@W.
The answer is either @L or @W.
The answer could be @L or @W.
The answer is @L, @W and @X.
The correct answers are @L and @W.
Options @L and @W
Options @L and @W are correct.
Option @L or option @W.
Option @L and option @W are both right.
I'm torn between @L and @W.
I hesitate between @L and @W.
Between @L and @W.
Possibly @L, possibly @W.
Maybe @L, maybe @W.
@L is possible, and so is @W.
@L is correct. @W is correct too.
@L is correct and @W is correct.
It might be @L, but it might also be @W.
I think it's @L. I think it's @W.
It's @L. It's @W.
@L? @W?
@L (@T) or @W (@V)
@L. @T or @W. @V
@L. @T\n@W. @V
@L) @T\n@W) @V\n@X) @Y
(@L) @T; (@W) @V
{"answer": "@L or @W"}
{"answer": ["@L", "@W"]}
{"answer_choice": "@L/@W"}
{"answer": "@L and @W"}
\\boxed{@L, @W}
\\boxed{@L} or \\boxed{@W}
<answer>@L or @W</answer>
Not @L.
Not @L!
It is not @L.
It's not @L.
It isn't @L.
It can't be @L.
It cannot be @L.
It is never @L.
I don't think it is @L.
I don't think it's @L.
I do not believe it is @L.
I doubt it is @L.
I doubt that it's @L.
I wouldn't choose @L.
I would not pick @L.
I'd never go with @L.
Not option @L.
Anything but @L.
Everything except @L.
All but @L.
All except @L.
The answer is not @L.
The answer isn't @L.
The answer is certainly not @L.
The answer cannot be @L.
The answer is anything but @L.
@L is wrong.
@L is incorrect.
@L is not correct.
@L isn't right.
@L is false.
@L is unlikely.
@L is less likely.
@L is out.
@L is not the answer.
@L cannot be right.
@L can be ruled out.
@L can be excluded.
@L does not fit.
@L seems wrong.
@L seems unlikely.
(@L) is wrong
(@L) is incorrect.
Option @L is wrong.
Option @L is incorrect.
Option @L is not right.
Option @L does not fit.
Option @L can be eliminated.
I can rule out @L.
We rule out @L.
I would exclude @L.
I eliminate @L.
Neither @L nor @W.
Neither @L nor @W is right.
Not @L, not @W.
@L and @W are wrong.
@L and @W can be ruled out.
Is it @L?
Could it be @L? I cannot tell.
Why not @L?
If it were a child, the answer would be @L.
If the fever were gone, I would choose @L.
Unless there is fever, it is @L.
Some would say @L.
Some say @L.
Many people choose @L.
My colleague thinks it is @L.
A student might pick @L.
Most people would answer @L, which is wrong.
One might think the answer is @L.
You might think it is @L.
At first I thought it was @L.
I used to think it was @L.
It was thought to be @L.
A patient with this history needs care.
A careful history is needed.
A patient.
A 45-year-old man has bleeding gums.
B cells are made in the marrow.
T cells and B cells take part.
Vitamin B is found in grain.
Vitamin C is needed for collagen.
Vitamin C.
It is vitamin C.
I think it is vitamin C.
This is hepatitis B.
Hepatitis C is a virus.
I think it is hepatitis B.
The patient has hepatitis B.
Type A influenza is common.
Group B streptococcus is common.
Blood group A.
Factor D.
C. difficile was found.
C difficile causes diarrhoea.
B lymphocytes.
D-dimer is high.
D dimer was measured.
The C-reactive protein is high.
Plan B was tried.
Grade A evidence was found.
Class C evidence.
Stage D.
A B C D
A, B, C, D
A) B) C) D)
ABCD
Options: A, B, C, D
The options are A, B, C and D.
Please choose A, B, C or D.
Choose one of A, B, C, D.
Reply with A, B, C or D.
Answer with one letter (A-D).
Option
Option:
Answer:
The answer is
The answer is:
The answer is as follows.
The answer is a matter of debate.
The answer is a patient history.
The answer is an old one.
The answer depends on the history.
The answer is unclear.
The answer is unknown.
The answer is not given.
The answer cannot be determined.
I do not know.
I don't know.
I am not sure.
Not sure.
No idea.
I cannot answer this.
I'm sorry, but I can't help with that.
I cannot give medical advice.
As an AI, I can't give a diagnosis.
There is not enough information.
None of the options fits.
None of them.
It cannot be determined from the passages.
N/A
null
{}
{"answer": ""}
{"answer": null}
{"answer": "unknown"}
{"answer": "none"}
{"answer": "G"}
The answer is G.
The answer is Z.
Option H.
I think it is K.
X
Z.
7
42
The answer is 3.
The answer is 2.
Option 2
Option II
II
The second one.
The first option.
The last one.
I choose the second option.
One of the options above.
See above.
As said above.
All of the above.
Both.
Both of them.
The gums bleed.
The history is typical.
The findings fit well.
Let us think step by step.
Let us look at each option in turn.
Option @L: @T is one of the options. Option @W: @V is another.
Option @L is interesting.
Option @L says @t.
Option @L refers to @t.
Option @L was considered first.
Consider option @L first.
Consider @L.
Let's consider option @L.
Compare @L with @W.
@L versus @W
@L vs. @W
The difference between @L and @W is small.
Error: connection refused
Request timed out.
"""
"""Nothing is to be read from these, whatever the options are."""

TEXT_TRAPS = r"""
@T or @v
@T or @v.
@T and @v
@T, @v
It is @t or @v.
It is either @t or @v.
I think it is @t or @v.
Either @t or @v is possible.
The diagnosis is @t or @v.
The answer is @t or @v.
The differential includes @t and @v.
The patient has @t and @v.
Both @t and @v fit.
It is not @t.
It isn't @t.
I don't think it is @t.
This is not @t.
There is no sign of @t.
No @t was found.
Without @t.
@T is unlikely.
@T is wrong.
@T is excluded.
@T was ruled out.
@T can be ruled out.
The findings rule out @t.
The findings speak against @t.
The diagnosis is not @t.
The answer is not @t.
Unlike @t, this is acute.
Rather than @t, something else.
Other than @t, nothing fits.
The patient once had @t, which healed.
A history of @t is given.
Her mother had @t.
Screening for @t is advised.
What is @t?
Is it @t?
If it were @t, the pulse would differ.
@T is one of the options.
Treatment of @t is simple.
Patients with @t have other findings.
{"answer": "@T or @V"}
\\boxed{@T or @V}
<answer>@T, @V</answer>
@W. @T
@W) @T
The answer is @W. @T
{"answer": "@W. @T"}
Answer: @W (@T)
"""
"""Where the options are diagnoses: two of them, one that is denied, one that is only spoken of, a label with another
option's text."""

DECIDED_TRAPS = r"""
@T or @v
Yes and no.
Yes or no?
There is no evidence.
There were no differences between the groups.
No evidence was found.
It may be so.
It may be.
The trial had no control group.
Yes, no, maybe.
The answer is yes or no.
The answer is yes and no.
Maybe yes, maybe no.
Please answer yes, no or maybe.
The question is whether the answer is yes.
I have no answer.
"""

ZH_TRAPS = r"""
@L或@W
@L和@W
@L、@W
@L、@W、@X
@L或者@W。
答案是@L或@W。
答案：@L、@W
选@L或@W。
@L和@W都对。
@L和@W都正确。
可能是@L，也可能是@W。
不是@L。
不选@L。
不应选@L。
答案不是@L。
@L错误。
@L不对。
@L不正确。
@L项错误。
@L选项不正确。
排除@L。
可以排除@L。
@L和@W都不对。
选项@L错误。
选项@L不符合。
是@L吗？
无法确定。
不知道。
信息不足，无法判断。
以上都不是。
抱歉，我无法回答。
维生素C缺乏。
维生素B族。
乙型肝炎B。
A型血。
B超检查。
C反应蛋白升高。
@T或@V
@T和@V
不是@T。
可以排除@T。
不考虑@T。
请选择A、B、C或D。
答案不确定。
如果是儿童，选@L。
有人选@L。
"""


LATE = r"""
@L would be my pick.
@L is what the evidence favours.
I would definitely say @L.
I'd lean toward option @L here.
My money is on @L.
Put me down for @L.
The one that fits is @L.
The one I would choose is @L.
The only option that fits is @L.
The option that fits best is @L.
The most fitting option would be @L.
The best fit is @L.
The best match is option @L.
The most reasonable choice is (@L).
The most probable answer is **@L**.
The likeliest answer is @L.
The likely answer: @L
Most likely answer: @L
The answer has to be @L.
The answer seems to be @L.
The answer appears to be @L.
The answer comes out as @L.
It all points to @L.
All signs point to @L.
Everything fits with @L.
This leaves @L.
We are left with @L.
That leaves us with option @L.
After weighing the options, I'd choose @L.
After reading the passages, I would go with @L.
Having read the documents, I believe the correct answer is @L.
On balance, @L.
On balance, I favour @L.
By far the best choice is @L.
Without a doubt, @L.
No doubt, it's @L.
Undoubtedly @L.
For me it's @L.
For me, the answer is @L.
Answer = (@L)
Answer → @L
Ans = @L
Final: @L
Final choice: @L
Final decision: @L
Verdict: @L
Conclusion: @L
Conclusion: the answer is @L.
Result: @L
Response: @L
Correct choice: (@L)
Correct choice is @L
The correct letter is @L.
The letter of the correct option is @L.
Your answer: @L
The answer you want is @L.
So my answer would be @L
so i'd go with @L
So I choose @L.
So the best option is @L.
Thus, option @L is correct.
Thus I would select @L.
Hence the answer: @L
Therefore, I select @L.
Therefore option @L is the best answer.
Consequently, the answer is @L.
Accordingly, I choose @L.
@L, as far as I can see.
@L, in my opinion.
@L, if I had to guess.
@L, given the history.
@L, based on the passages.
@L; the rest do not fit.
@L / @T
@L... I think.
@L - definitely.
@L, hands down.
@L, no question.
@L is the best fit.
@L is the best match.
@L is the only one that fits.
@L is the one that fits.
@L sounds right.
@L sounds most likely.
@L would fit best.
@L best explains the findings.
@L explains the findings best.
@L is supported by the passages.
Option @L is supported by the evidence.
Option @L best matches the findings.
Option @L would be the most appropriate.
Option @L is what I would choose.
I am going to say @L.
I'm inclined to say @L.
I'd bet on @L.
I would answer @L.
I'd answer (@L).
I answer @L.
I am choosing option @L because it fits.
I've settled on @L.
I decided on @L.
We should choose @L.
You should choose @L.
One should choose @L here.
I think the correct option is @L.
I think that the answer must be @L.
I do think it is @L.
I really think it's @L.
I still think it's @L.
I strongly believe it's @L.
I'm convinced it is @L.
I'm 90% sure it's @L.
I am almost certain that it is @L.
Pretty sure it's @L.
Fairly confident in @L.
{"answer": {"choice": "@L"}}
{"answer": "@L", "confidence": 0.9}
{"letter": "@L"}
{"response": {"answer": "@L"}}
{"answer": "The answer is @L."}
{"answer": "I think it is @L."}
{"answer": "(@L) @T"}
{"answer": "@L: @T because it fits"}
{"explanation": "@W is tempting.", "answer": "@L"}
```\n@L\n```
\\[\\boxed{@L}\\]
$\\boxed{\\textbf{(@L)}}$
The final answer is $\\boxed{@L}$.
The answer is \\textbf{@L}.
***@L***
<b>@L</b>
<answer>(@L)</answer>
<answer>The answer is @L</answer>
<ANSWER>@L</ANSWER>
[Answer]: @L
[@L] @T
(@L): @T
@L.) @T
@L). @T
@L\t@T
- **@L. @T**
• @L
1. @L
Answer:**@L**
Answer :@L
answer:@l
**Correct Answer: @L. @T**
**Final Answer**: (@L) @T
#### @L
It is not @W or @X; it is @L.
Neither @W nor @X fits, so @L.
@W and @X do not fit; @L does.
Instead of @W I would choose @L.
Rather than @W, I choose @L.
While @W is possible, @L is more likely.
Although @W is possible, I think it is @L.
Even though @W is tempting, the answer is @L.
@W is possible, but @L is more likely.
@W is plausible; however, the correct answer is @L.
I considered @W, but I'd go with @L.
I first thought @W; now I think @L.
Sorry, I meant @L.
@W - no, @L.
Correction: the answer is @L.
My first guess was @W. My final answer is @L.
Let me change my answer to @L.
"""
LATE_TRAPS = r"""
@L, or perhaps @W.
@L maybe, or @W.
@L; or else @W.
@L as well as @W.
@L plus @W.
@L (or @W)
@L | @W
@L and/or @W
Not sure whether @L or @W.
I can't choose between @L and @W.
I cannot decide between @L and @W.
It is hard to choose between @L and @W.
Could be @L, could be @W.
It may be @L or it may be @W.
One of @L or @W.
@L or @W would both be reasonable.
Two options fit: @L and @W.
Options @L, @W, and @X all fit.
All of @L, @W and @X.
The answer is @L. The answer is also @W.
The answer might be @L, or @W.
The answers are @L and @W.
Answers: @L, @W
Answer: @L/@W
Answer: @L & @W
Answer: @L or @W
Final answer: @L or @W
**@L** or **@W**
(@L) or (@W)
(@L) and (@W)
@L. @T and @W. @V
{"answer": "@L, @W"}
{"answer": ["@L", "@W", "@X"]}
{"answer": "either @L or @W"}
\\boxed{@L/@W}
\\boxed{@L \\text{ or } @W}
<answer>@L/@W</answer>
I think both @L and @W.
Both @L and @W could be right.
I do not think that @L is right.
I don't believe that option @L is correct.
I would not say @L.
I'd avoid @L.
I would rule @L out.
I can exclude option @L.
We can eliminate @L.
There is no reason to choose @L.
It is certainly not @L.
It's definitely not @L.
It is probably not @L.
It could not be @L.
It's hardly @L.
@L is not what I would choose.
@L isn't the answer.
@L won't do.
@L makes no sense.
@L makes little sense.
@L is hardly right.
@L is rarely right.
@L is a distractor.
@L is tempting, but wrong.
@L seems right, but it isn't.
@L looks right at first, but it is not.
@L would be wrong.
@L would be a mistake.
@L is contradicted by the passages.
@L is ruled out by the history.
Option @L is a common mistake.
Option @L should be avoided.
The wrong answer is @L.
The incorrect option is @L.
The least likely answer is @L.
A wrong choice would be @L.
Do not choose @L.
Don't pick @L.
Never choose @L.
Never @L.
Why would it be @L?
How can it be @L?
Would you choose @L?
Is the answer @L?
Is @L correct?
Should I choose @L?
The question is whether it is @L.
If the patient were older, @L would be correct.
If I had more information, I might choose @L.
In a child the answer would be @L.
Had there been fever, the answer would be @L.
The authors think it is @L.
My teacher says the answer is @L.
According to some, it is @L.
Others would choose @L.
They chose @L.
The student answered @L.
You said @L.
You chose @L.
The previous answer was @L.
Other answers than @L are possible.
Let us first look at @L.
Let's start with option @L.
Option @L and option @W differ in one word.
Option @L mentions the treatment.
What about @L?
As for @L, it is interesting.
See option @L.
As in option @L.
There are four options: A, B, C and D.
Vitamin A and vitamin D are fat-soluble.
Type B natriuretic peptide was measured.
Blood type AB.
It is influenza A.
It is group B streptococcus.
It's a B cell lymphoma.
He has haemophilia B.
A second opinion is needed.
A doctor should be asked.
A possible cause is age.
A. baumannii was found.
E. coli was found.
B. burgdorferi causes Lyme disease.
The answer is A patient with fever.
The answer is B cells.
The answer is C. difficile.
I would give vitamin C.
I choose plan B.
I'd go with vitamin D.
I cannot say.
I can't tell from this.
No answer.
No option fits.
None fits.
None of the options is right.
There's no right answer here.
The passages do not say.
The documents don't mention it.
I need more information.
Please give me more information.
Insufficient information.
Unable to determine.
I must decline to answer.
Ask a doctor.
?
...
-
*
Answer: ?
Answer: N/A
Answer: none
Answer: unknown
The answer is not clear.
The answer is none of these.
The answer is 42.
{"answer": "?"}
{"answer": []}
{"error": "timeout"}
"""
"""Written after the reader was, and before its failures on the half that was kept from view were looked at: read once,
as they are, by the command of perf/reading.md. What they showed was mended later, where it was."""


class Phrasing(NamedTuple):
    """One wording for one question, with the label that a careful reader takes from it (empty: none)."""

    template: str
    text: str
    question: Question
    label: str


def held_out(template: str) -> bool:
    """Whether a template is of the half that nobody who works at the reader looks at."""
    return hashlib.sha256(f"half:{template}".encode()).digest()[0] % 2 == 1


_ENGLISH = ((NUTRITION, "ABD"), (PRESSURE, "BC"), (NEXT_STEP, "AE"))
_SETS: tuple[tuple[str, bool, tuple[tuple[Question, str], ...]], ...] = (
    (SAID, True, (*_ENGLISH, (TRIAL, "C"), (DOSE, "D"))),
    (SMALL, True, ((NUTRITION, "BC"), (NEXT_STEP, "E"))),
    (TEXT, True, ((NUTRITION, "AC"), (PRESSURE, "ABD"))),
    (STEP, True, ((NEXT_STEP, "ABCDE"),)),
    (DECIDED, True, ((TRIAL, "ABC"),)),
    (AMOUNT, True, ((DOSE, "ABD"),)),
    (ZH_SAID, True, ((CHINESE, "ABD"),)),
    (ZH_TEXT, True, ((CHINESE, "ABC"),)),
    (ELSEWHERE, True, ((NUTRITION, "BC"), (PRESSURE, "D"))),
    (TRAPS, False, ((NUTRITION, "AC"), (PRESSURE, "B"), (NEXT_STEP, "D"))),
    (TEXT_TRAPS, False, ((NUTRITION, "AC"), (PRESSURE, "BD"))),
    (DECIDED_TRAPS, False, ((TRIAL, "AB"),)),
    (ZH_TRAPS, False, ((CHINESE, "AC"),)),
)
_LATE_SETS: tuple[tuple[str, bool, tuple[tuple[Question, str], ...]], ...] = (
    (LATE, True, ((NUTRITION, "AB"), (PRESSURE, "D"), (NEXT_STEP, "CE"))),
    (LATE_TRAPS, False, ((NUTRITION, "B"), (PRESSURE, "AC"))),
)


def phrasings(late: bool = False) -> Iterator[Phrasing]:
    """Every template with every question and label of its list; each wording of a question once.

    Args:
        late: those of :data:`LATE` and :data:`LATE_TRAPS` alone, in place of all others.
    """
    seen: set[tuple[str, str]] = set()
    for templates, read, questions in _LATE_SETS if late else _SETS:
        for template in filter(None, templates.strip("\n").split("\n")):
            for question, labels in questions:
                for label in labels:
                    text = _worded(template, question, label)
                    if (question.id, text) not in seen:
                        seen.add((question.id, text))
                        yield Phrasing(template, text, question, label if read else "")


def _worded(template: str, question: Question, label: str) -> str:
    labels = list(question.options)
    place = labels.index(label)
    text = template.replace("\\n", "\n").replace("\\\\", "\\")
    for step, marks in enumerate(("LlTt", "WwVv", "XxYy")):
        one = labels[(place + step) % len(labels)]
        said = question.options[one]
        for mark, part in zip(
            marks, (one, one.lower(), said[:1].upper() + said[1:], said[:1].lower() + said[1:]), strict=True
        ):
            text = text.replace(f"@{mark}", part)
    return text
