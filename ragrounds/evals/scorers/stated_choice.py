"""Option that a text commits itself to, sentence by sentence.

This module reads marks (:mod:`ragrounds.evals.scorers.option_marks`). A sentence that denies, asks, supposes or reports
others' opinions is not a commitment. A commitment has a weight: a statement of *the answer* outweighs "C is correct",
which outweighs "I think it is C", which outweighs "it could be C". Of several statements of the answer the last one
counts, as a correction. Commitments that the text retracts ("wait, no", "scratch that") do not count. Of all other
commitments every one must name the same option, otherwise none is read. A text that reasons at length goes through the
options: in it a stated answer counts anywhere, and everything else only at the end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ragrounds.base.text import normalized, parse_toml
from ragrounds.evals.scorers.option_marks import LABEL, REJECTED, SMALL, TEXT, Mentions

_ANY = "[\ue000-\uebff]"
_NAMED = "[\ue000-\ue3ff]"
_WORDS = "[\ue800-\uebff]"
_LEAD = "[\ue000-\ue3ff\ue800-\uebff]"
_OPEN, _CLOSE = r"[\s\"'(\[{<:]{0,4}", r"[\"')\]}>]{0,3}"
_OPTION = (
    r"(?:(?:the\s)?(?:(?:correct|right|best)\s)?(?:options?|choice|answer|letter|选项|答案)\s?(?:choice\s)?)?"
    r"(?:an?\s(?![\ue000-\ue3ff])|the\s)?"
)
_SURE = (
    r"(?:(?:most (?:likely|probably)|more likely|probably|likely|clearly|definitely|certainly|obviously|surely|simply|"
    r"almost certainly|perhaps|maybe|possibly|indeed|actually|really|best|only|just|therefore|thus|still|indeed|either|"
    r"in fact|then|also|both)[\s,:]{1,2}){0,2}"
)
_IT = _OPEN + _SURE + _OPEN + _OPTION + _OPEN
_LIST = (
    r"(?:(?>\s?(?:,\s?(?:and|or)?|/|&|、|或者?|和|与|以?及|;\s?(?:or|and)?|\||\b(?:or|and)\b|versus|vs\.?|"
    r"\()\s?(?:(?:possibly|maybe|perhaps|else)\s)?"
    rf"{_OPEN}{_OPTION}{_ANY}{_CLOSE})){{0,30}}+"
)
"""Further options that are named together with the first."""
_MANY = f"(?P<first>{_ANY}){_CLOSE}(?P<more>{_LIST})"

_IS = (
    r"(?:\b(?:(?:is|was|would be|should be|must be|has to be|will be)(?: to)?|remains|could be|lautet|ist|es|est|é|è)"
    r"\b|->|[:=–→-])"
)
_OTHER_LANGUAGES = "|".join(
    normalized("NFKC", row["words"])
    for row in parse_toml(Path(__file__).with_name("stated_answers.toml").read_text("utf-8"))["pattern"]
)
_ANSWER = re.compile(
    rf"(?:(?:(?<!each )(?<!every )(?<!wrong )(?<!incorrect )(?<!other )(?<!another )\b(?:answer|choice|option|"
    rf"selection|pick|solution|decision|response|verdict|(?:right|correct|best|only|likely) one|ans|antwort|"
    rf"respuesta|réponse|resposta|risposta)\b\.?(?P<gap>[^.!?\n;:={REJECTED}\ue000-\uebff]{{0,45}}?)\s?(?P<is>{_IS})"
    rf"|\b(?:(?:final|correct|right|best) (?:answer|choice|option)|ans\.?|answer)|\b(?:correct|right)\s?:"
    r"|(?<!each )(?<!every )(?<!wrong_)(?<!incorrect_)(?<!rejected_)(?:answer|choice|option|selected_option|"
    r"prediction|label|selection)[\"']?\s?[:=]"
    rf"|{_OTHER_LANGUAGES})){_IT}{_MANY}",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"(?:\b(?:i|we|you should|one should)(?:'d|'ll|'m|'ve)?(?: would| will| am| have| had| can| must| should| do|"
    r" personally| therefore)?"
    r"(?: rather| most likely| probably| definitely| certainly| also)?\s|^\W{0,3}|[,:]\s|\b(?:so|then|let's|hence|"
    r"therefore|thus|to|and|have to|overall) )"
    r"(?:go(?:ing)? (?:with|for)|choos(?:e|ing)|chose|chosen|pick(?:ing|ed)?|select(?:ing|ed)?|opt(?:ing)? for|"
    r"vote for|settle (?:on|for)|take|lean(?:ing)? towards?|agree with|decided? (?:on|for)|settled on|bet on|"
    r"going to (?:say|choose)|meant?|say|answer(?: with)?|mark)\b"
    rf"{_IT}{_MANY}",
    re.IGNORECASE,
)
_SUPERLATIVE = (
    r"(?:correct|right|true|best|accurate|(?:the )?(?:most|more) (?:likely|appropriate|probable|plausible|accurate|"
    r"sensible|suitable)|"
    r"likely|the (?:answer|one|key|correct|right|best|only|likeliest)|the most[.!]|my (?:final |best )?(?:answer|"
    r"choice|pick|guess)|what i(?: would|'d)? (?:choose|pick)|the case)\b"
)
_RIGHT = re.compile(
    rf"(?:^|[,;:(]\s?|\b(?:so|but|that|hence|therefore|thus|then|and|think|believe|opinion|me|option|choice|"
    rf"answer choice|answer|feel|view|makes?|conclude|say) )\W{{0,3}}{_OPTION}{_OPEN}{_MANY}\s?(?:"
    rf"(?:(?:is|are|was|seems?|looks?|appears?|sounds?|would be|must be|should be|has to be|remains|"
    rf"to be)\s){{1,2}}{_SURE}{_SUPERLATIVE}"
    r"|(?:fits?|explains?)(?: it| this| everything| the [a-z]{1,20})?(?: the)? (?:best|most)|would fit best|"
    r"best (?:fits|matches|explains|describes)|(?:is|are) (?:best )?(?:supported|favou?red) by|is what|does\W*$|"
    r"makes (?:the most |more )?sense|it is\b|for sure|wins\b|all the way"
    r"|(?:the )?(?:best|correct|right|most likely) (?:answer|choice|option)"
    r"|(?:项|选项)?\s?(?:是|为)?\s?(?:正确|对|最佳|最合适)(?!吗)|是(?:正确)?答案)",
    re.IGNORECASE,
)
_THOUGHT = re.compile(
    rf"(?:\b(?:i|we|ich|creo|je)(?:'m|'d|'ll)?(?: would| am| do| can| personally| still| really|"
    rf" have to)?\s(?:also )?(?:(?:fairly |pretty |quite |very |"
    r"reasonably )?(?:think|believe|guess(?:ing)?|suspect|reckon|suppose|feel|say|conclude|sure|confident|denke|"
    r"pense|que|convinced|assume|answer)"
    r"|bet)[\s,:]{0,2}(?:that\s|que\s|c')?(?:(?:it|this|that|the answer|es|he|she)?\s?(?:is|was|'s|must be|"
    r"has to be|would be|should be|es|est|ist)\s)?"
    r"|\b(?:it|that|this|its|which|c'|es|now|here)\s?(?:'s|is|was|ist|est|es|would be|must be|should be|has to be|"
    r"(?:'s )?gotta be|could only be|can only be|"
    r"seems?(?: to be)?|appears?(?: to be)?|looks like|leaves(?: us with)?|makes|(?:\bits)?)\s"
    r"|^\W{0,3}(?:its|must be|has to be|should be|would be|gotta be)\s"
    r"|(?:points?(?: strongly)? (?:to|towards?)|supports?|favou?rs?|leaves(?: us with| only)?|makes|backs) "
    r"|\b(?:put me down for|money is on|left with(?: option)?|fits with|confident in|change my answer to|"
    r"comes out as)\s|\bmy (?:best |final )?(?:guess|bet|pick|choice|diagnosis|vote)(?: is| would be|:| goes to)?\s"
    r"|(?:我)?(?:认为|觉得|想)\s?(?:答案)?(?:是|应该?是|为|应该?)?(?:选)?"
    r"|(?:应该|应|最可能|很可能|大概|那么|就|这|那|所以|因此|,|^)(?:就)?(?:是|为)|可能是"
    rf"){_IT}{_MANY}",
    re.IGNORECASE,
)
_DIAGNOSED = re.compile(
    r"(?:\b(?:diagnosis|cause|condition|explanation|disease|drug|dose|organism|treatment|test|therapy|agent|step|"
    r"mechanism|management|finding|result|reason)(?: [a-z]{1,15}){0,5}?\s?(?:is|would be|:)(?: to)?"
    r"|\b(?:patient|he|she|child|man|woman|boy|girl|infant)(?: most| very)?(?: likely| probably| clearly|"
    r" must)?(?: has| have)"
    r"|\b(?:typical|characteristic|suggestive|indicative|diagnostic|pathognomonic) (?:of|for)|\b(?:consistent|"
    r"compatible|in keeping) with"
    r"|\b(?:suggests?|indicates?|points? to|favou?rs?|confirms?|represents?)|\b(?:i|you|we)(?:'d| would| should|"
    r" must|'ll| will)|^\W{0,3}next,|(?:诊断|考虑)(?:为|是|:)?|患(?:者)?(?:患)?有"
    rf")\s?{_OPEN}{_SURE}(?:an?\s|the\s|to\s|by\s)?{_OPEN}(?P<first>{_WORDS}){_CLOSE}(?P<more>{_LIST})",
    re.IGNORECASE,
)
_BEGUN = re.compile(
    rf"(?:^\W{{0,4}}|,\s(?=so|hence|thus|therefore))(?:(?:so|thus|hence|therefore|maybe|perhaps|probably|possibly|"
    rf"likely|most likely|most probably|definitely|certainly|clearly|obviously|surely|"
    r"in (?:conclusion|summary|short|my (?:opinion|view))|overall|ultimately|finally|to conclude|ok(?:ay)?|well|"
    r"hmm+|sure|easy|yes|right|actually|rather|instead|then|"
    r"all things considered|by elimination|if (?:forced to choose|i must choose|i had to choose)|based on (?:the |"
    r"this |these )?[a-z ]{1,40}|given (?:the |this |these )?[a-z ]{1,40}|"
    r"on balance|undoubtedly|without (?:a )?doubt|no doubt|conclusion|result|verdict|"
    r"final|correct|selection|letter|diagnosis|solution|from the [a-z]{1,20}|not sure|unsure|但|因此|所以|"
    r"综上(?:所述)?|最可能)\b[\s,:.\-–—]{0,3}){1,3}"
    rf"{_IT}{_MANY}{_CLOSE}(?=\s*(?:$|[.,;:!?。、)(={REJECTED}]|[-–—]\s|because|since|as\b|due|given|rather|instead|over|not\b|项|因))",
    re.IGNORECASE,
)
_COMES_TO = re.compile(
    rf"\b(?:is|are|would be|be|was)(?: (?:most )?(?:likely|probably)(?: to be)?)?(?: to\b)?\s?:?\s?{_IT}{_MANY}"
    rf"[\s.!\"')]{{0,6}}(?:$|[,;]|\s?(?:because|since|as it|which)\b)",
    re.IGNORECASE,
)
_FIRST = re.compile(
    rf"^[^\w\ue000-\uebff]{{0,4}}(?:(?:option|(?:answer )?choice|answer|letter|选项|"
    rf"答)\s?:?\s?)?{_OPEN}(?P<first>{_LEAD}){_CLOSE}(?P<more>{_LIST}){_CLOSE}"
    rf"(?=\s*$|[.,;:!)\]。、]|\s*[=({REJECTED}]|\s*[-–—]{{1,2}}\s|\s+(?:because|since|due|as the|i think|i'd|"
    rf"i would|i believe|rather|instead|over|for sure|not|and not)\b|\s?[因])",
    re.IGNORECASE,
)
_SMALL_FIRST = re.compile(r"^\W{0,4}(?:\((?P<a>[\ue400-\ue7ff])\)|(?P<b>[\ue400-\ue7ff])(?:\)|[.!]?\s*$))")
_MIGHT = re.compile(
    rf"\b(?:it|that|this|answer)(?: [a-z]{{1,12}}){{0,2}} (?:could|might|may)(?: well| possibly|"
    rf" also)? be\s{_IT}{_MANY}",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    rf"^\W{{0,4}}{REJECTED}\W{{0,3}}(?:but|sondern|it is|是|而是|选)?\W{{0,3}}{_IT}{_MANY}\W{{0,3}}$", re.IGNORECASE
)

_GROUP = (
    rf"(?>{_OPEN}{_OPTION}{_OPEN}{_ANY}{_CLOSE}"
    rf"(?:(?>\s?(?:,\s?(?:and|or)?|/|\b(?:and|or|nor)\b|&|、|和|或|与)\s?{_OPEN}{_OPTION}{_ANY}{_CLOSE})){{0,30}}+)"
)
_SAYING = (
    r"(?:(?:think|believe|say|choose|choosing|pick|select|go|going|with|for|be|been|it|it's|is|that|this|the|"
    r"answer|correct|right|option|certainly|really|would|"
    r"take|a|an|likely|either|both|to|clearly|because|of|diagnosis|necessarily|consider|was|consistent|compatible|"
    r"typical|suggestive|represents?|indicates?|indicative|suggests?|supports?|"
    r"mean|due|by|associated|related|caused|see|explained)\s){0,8}"
)
_DENIED = re.compile(
    rf"(?:\b(?:not|never|doubt|cannot|neither|nor|without|against|unlike|than|excluding|except(?: for)?|"
    rf"(?:anything|everything|all|nothing) but|other than|as opposed to|opposed to|instead of|over|unless|"
    rf"no (?:reason|need|point)|avoid|avoided|hardly|rarely|little|(?:wrong|incorrect|a mistake|unlikely) to)|n't)"
    rf"\s{_SAYING}{_GROUP}|(?:\b(?:no es|non è|n[ãa]o é)\s|(?:[❌✗✘☐]|\[ ?\])\s?){_GROUP}"
    rf"|\b(?:rul(?:e|es|ed|ing) out|exclud(?:e|es|ed|ing)|eliminat(?:e|es|ed|ing)|discard(?:ed|ing)?|reject(?:ed|"
    rf"ing)?|no(?: sign| evidence)?(?: of)?)\s{_GROUP}"
    rf"|(?:并?不(?:应该?|会|能)?(?:是|选择?|考虑)|(?:可以|应)?排除|除了|并非|而非|不应选择?)\s?{_GROUP}",
    re.IGNORECASE,
)
_WRONG = re.compile(
    rf"{_GROUP}(?:\s(?:is|are|was|were|seems?|looks?|appears?|would|be|can|could|may|might|should|does|do|both|all|therefore|also|clearly|to|been|has|have)){{0,4}}"
    r"(?:\s?(?:not\b(?!\s*only)|n't)(?<!, not)|(?:\s?[.:,=(–—-]\s?|\s)(?:(?:wrong|incorrect|false|"
    r"unlikely|less likely|does not fit)\b|(?:no|contraindicated|too \w{3,6})(?=(?: here)?\W*(?:$|because))|[❌✗✘])"
    r"|\s?[:=(–—-]\s?not (?:correct|right|indicated|true|the|an?|recommended|likely)\b"
    r"|\s(?:out\b|ruled out|excluded|eliminated|discarded|rejected|tempting|attractive|a distractor|impossible|less)"
    r"|\s?(?:项|选项)?(?:都|均|是|也)?(?:可以)?(?:错误|不对|不正确|错|不符合|不是|排除|不考虑|禁忌|禁用)"
    r"|[:,(=]\s?(?:错误?|不对|不正确|禁忌|禁用)(?=\W*$)|(?:では|じゃ)(?:な|あり)|[가이은는]? ?아[니닙]| değil\b| नहीं)",
    re.IGNORECASE,
)
_CONCEDED = re.compile(r"^\W{0,4}(?:although|though|even though|while|whereas|even if)\b[^,]{0,120},", re.IGNORECASE)
_TURN = re.compile(
    r"\b(?:but|however|actually|wait|instead|yet|on second thought)\b[\s,:]{0,3}|但是?|其实", re.IGNORECASE
)
_RETURN = re.compile(r"\b(?:no,? wait|wait,? no|actually,? no|no,? actually|hmm,? no)\b", re.IGNORECASE)
_RETRACTED = re.compile(
    r"\b(?:(?:scratch|strike|forget|ignore) that|(?:take|taking) (?:that|it|this) back|i stand corrected"
    r"|i made a mistake"
    r"|(?<!if )(?<!unless )i (?:was|am|must be) (?:wrong|mistaken)|no,? wait|(?:wait|hmm+|actually)[\s,:–—-]{1,4}no"
    r"|let me (?:correct|revise|change) (?:that|this|it|myself|my (?:answer|choice)))(?=\s?(?:$|[.,;:!–—]|-\s))"
    r"|\blet me (?=(?:correct|revise|change) my (?:answer|choice) to\b)"
    r"|(?:等等|等一下|哦)[，,]?\s?不对(?!称)|我(?:说|弄|搞|答)错了|更正[:：，,]",
    re.IGNORECASE,
)
"""Words that retract what the text has said before them, if they end a clause."""
_OTHERS = re.compile(
    r"\b(?:some|many|most people|people|others?|colleagues?|students?|someone|somebody|one|you|they|he|she|"
    r"authors?|everyone|nobody|exam(?:iner)?s?)\b"
    r"(?: [a-z]{1,12}){0,2} (?:say|says|think|thinks|believes?|chooses?|picks?|answers?|argues?|guess|claims?|"
    r"prefers?)\b"
    r"|\b(?:at first|initially|used to|was thought|had thought|i thought|going to say|tempted|might seem|may seem|"
    r"could seem|(?:i|we) considered|in another|in a child)\b"
    r"|\baccording to (?:some|many|others)\b|\b(?:previous|earlier|original|initial|old|first|(?:second|next)"
    r"(?:[ -](?:best|likeliest|most likely))?) (?:answer|guess|choice|thought)\b"
    r"|\b(?:teacher|professor|friend|doctor|book|expert)s?(?: [a-z]{1,12}){0,2} (?:say|says|said|thinks?|thought|"
    r"chose|answered)\b"
    r"|\b(?:wrong|incorrect|false|worst|least (?:likely|appropriate|probable)) (?:answer|choice|option)\b"
    r"|\bwhether\b|\bsuppose\b|\bexample\b|有人|别人|同学|很多人|有些人|如果|假如|是否|若",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"^\W{0,4}(?:if|unless|suppose|were|had|when)\b|\bif (?:it|the|he|she|there|this)\b|\bunless\b", re.IGNORECASE
)
_FORCED = re.compile(
    r"^\W{0,4}if (?:i|we|you)? ?(?:had|have|must|were|was|am|could|forced|pressed|asked|only)", re.IGNORECASE
)
_FAMILY = re.compile(
    r"\b(?:mother|father|sister|brother|family|history of|once|previously|formerly|screening|risk of|prevents?|"
    r"treatment of|patients with|differential)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\W{0,4}(?:is|are|could|can|would|why|what|which|how|who|does|do|did|was|should|might|or)\b|吗", re.IGNORECASE
)
_CONCLUDES = re.compile(
    r"^\W{0,4}(?:so|thus|hence|therefore|finally|overall|in (?:conclusion|summary|short)|ultimately|to conclude|"
    r"actually|wait|correction|no|rather|"
    r"on second thought|all things considered|所以|因此|综上|故)\b|[^\W\d_]*(?:综上|因此|所以)",
    re.IGNORECASE,
)
_ABBREVIATED = re.compile(r"^\W{0,3}[\ue000-\ue3ff]:\s(?=(?:the|my|i|it|this)\b)", re.IGNORECASE)
_ENDS = re.compile(
    r"[.!?]{1,3}[\"')\]]{0,2}(?:$|\s++(?!(?:wrong|incorrect|false|contraindicated)(?: here| in this \w{1,12})?\W*(?:$|"
    r"\n)))|[。!?]|;(?!\s?(?:or|and)\b)\s?|\n+",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(?:\banswer|\bconclusion|答案)(?: (?:is|choice))?\W{0,3}$", re.IGNORECASE)
_MARKS = re.compile(_ANY)
_TURNED_DOWN = re.compile(
    r"(?:(?!\b(?:because|since|as|due|given|for)\b).){0,300}?(?:\b(?:is|are|was|were|would|may|might|does|do|can|"
    r"could|should|has|have|been|be|seems?)"
    r"(?: [a-z]{1,12}){0,2}? (?:not|less|unlikely|incorrect|wrong|false|contraindicated)\b|n't\b|\bcannot\b"
    r"|\bno (?:mention|evidence)\b)",
    re.IGNORECASE,
)
"""Words after the option that a sentence begins with: "Option C, which needs surgery, is not indicated"."""
_NUMBERED = re.compile(r"^\W{0,4}\d{1,2}\s?[.):]\s?[\"'(\[]?([\ue000-\uebff])\W*$", re.MULTILINE)
"""Line with a number and an option: an answer to one of several questions, or a rank."""
_LEADS = re.compile(r"^\W{0,4}(?:(?:option|(?:answer )?choice)\s)?[\"'(]?([\ue000-\ue3ff])", re.IGNORECASE)
_BRIEF = 3
"""Largest number of sentences of a text whose first sentence may give the answer by an option's text."""
_LABELLED = re.compile(r"\(?[A-Z]\)?\s")
"""Option's label between "option" and "is". "Option B says that it is …" is a list's description of it."""
_TAKEN_BACK = re.compile(r"\b(?:it|this|that)\b.{0,30}(?:\b(?:not|less|unlikely)\b|n't)", re.IGNORECASE)
"""Words after "but" that take back the choice before it."""
_NO_ANSWER = re.compile(
    r"\b(?:answer|option|choice)s?\b.{0,40}?\b(?:is|are|be|was)\b.{0,20}?\b(?:unclear|unknown|uncertain|"
    r"not (?:among|given|provided|listed|clear|"
    r"known|there|in the))|\bno (?:\w{1,12} )?(?:option|choice|answer)s?\b.{0,20}\b(?:fits?|is|are|matche?s?|"
    r"given|can be)\b"
    r"|\bnone of (?:the|these) (?:options|choices|answers)|无法(?:确定|判断)|没有(?:正确|合适)?的?(?:选项|答案)",
    re.IGNORECASE,
)
_POSSIBLY = re.compile(r"\b(?:might|could|may)\b", re.IGNORECASE)
_EITHER = re.compile(r"\b(?:either|both)\s", re.IGNORECASE)
_ANOTHER = -1
"""Index in place of an option that is named but cannot be identified."""
_FEW = 3
"""Number of different labels at the beginnings of sentences from which a text counts as going through the options one
by one."""
_UNSAID = re.compile(
    r"^(?:(?!\b(?:that|which)\b).){0,45}(?:\b(?:not|no|if|when|were|follows|determined|depends)\b|n't)", re.IGNORECASE
)
"""Words between "the answer" and "is" that deny it. "The option that is not seen is C" is not a denial."""

_LONG = 700
"""Largest number of characters of a text that does not reason. In a longer text only the beginning and the end commit
it to anything but a stated answer."""
_PAIR = re.compile(
    r"(?P<label>[\ue000-\ue7ff])[\"')\]]{0,2}(?:[.:,)=–-]|\s(?:=|-|–|is|"
    r"being)(?=\s))?\s?[\"'(]?(?P<text>[\ue800-\uebff])[\"')]{0,2}"
    r"|(?P<said>[\ue800-\uebff])[\"']?,?\s[(\[]?(?:(?:which is |i\.e\.,? )?(?:option|choice|"
    r"answer(?: choice)?) )?(?P<named>[\ue000-\ue3ff])(?:[.:] (?P=said))?[)\]]?",
    re.IGNORECASE,
)
"""Label with a text: "C. Rickets", "rickets (option C)"."""
_ITSELF = re.compile(
    r"^\W{0,4}(?:(?:option|choice|answer|letter)\s?:?\s?)?[\ue000-\ue3ff\ue800-\uebff]\W{0,4}$", re.IGNORECASE
)


class _Commitment(NamedTuple):
    weight: int
    """Weight. 3: the answer is stated; 2: an option is called right; 1: it is thought to be right; 0: it could be
    right."""
    sentence: int
    options: frozenset[int]
    concludes: bool


class _Position(NamedTuple):
    """Position of a sentence in its text."""

    sentence: int
    sentences: int
    first: bool
    last: bool
    reasons: bool
    """True if the text is long."""
    lists: bool
    """True if the text goes through the options one by one."""
    listed: bool
    """True if such a list ends the text."""


class Committed(NamedTuple):
    """Commitment of a text."""

    label: str = ""
    """Label of the option; empty if the text commits itself to none, or to several."""
    several: tuple[str, ...] = ()
    """Labels of the options that are named instead of a single one."""
    retracted: bool = False
    """True if the text retracts what it says, and names no option after that."""


def committed(mentions: Mentions) -> Committed:
    """Return the option that a marked text commits itself to."""
    if not _MARKS.search(mentions.text):
        return Committed()
    text = _PAIR.sub(_merge_pair, mentions.text)
    numbered = {*map(_option, _NUMBERED.findall(text))}
    if len(numbered) > 1 and not _MARKS.search(_NUMBERED.sub("", text)):
        return Committed(several=tuple(mentions.labels[option] for option in sorted(numbered)))
    parts = _sentences(text)
    reasons = len(text) > _LONG
    commitments: list[_Commitment] = []
    leads = [match.group(1) if (match := _LEADS.match(part)) else "" for part in parts]
    lists = len({*leads} - {""}) >= _FEW
    listed = lists and leads.count(leads[-1]) == 1
    retracted = False
    for index, part in enumerate(parts):
        if retractions := [match.end() for match in _RETRACTED.finditer(part)]:
            commitments.clear()
            retracted = True
            part = part[retractions[-1] :]
        position = _Position(index, len(parts), index == 0, index == len(parts) - 1, reasons, lists, listed)
        commitments += _commitments(part, position)
    # A sentence that names no option may say that there is no answer, and no statement of one follows.
    last = max((commitment.sentence for commitment in commitments if commitment.weight == 3), default=-1)
    if any(_NO_ANSWER.search(part) for part in parts[last + 1 :] if not _MARKS.search(part)):
        return Committed()
    options = _committed_options(commitments, text)
    labels = tuple(mentions.labels[option] for option in sorted(options - {_ANOTHER}))
    return Committed(several=labels) if len(options) > 1 else Committed("".join(labels), retracted=retracted)


def _merge_pair(match: re.Match[str]) -> str:
    """Return one mark for a label with its own text, and both marks if the text belongs to a different option."""
    label, text = match.group("label") or match.group("named"), match.group("text") or match.group("said")
    return label if _option(label) == _option(text) else match.group()


def _committed_options(commitments: list[_Commitment], text: str) -> frozenset[int]:
    """Return the options that the weightiest commitments name: one, none, or several that do not agree."""
    by_weight = {
        weight: [commitment for commitment in commitments if commitment.weight == weight] for weight in range(4)
    }
    if stated := by_weight[3]:
        last = stated[-1]
        later = [commitment for commitment in by_weight[2] + by_weight[1] if commitment.sentence > last.sentence]
        revisions = [commitment for commitment in later if commitment.weight == 2 or commitment.concludes]
        return last.options.union(*(commitment.options for commitment in revisions))
    for weight in (2, 1):
        if candidates := by_weight[weight]:
            options = frozenset[int]().union(*(commitment.options for commitment in candidates))
            if len(options) > 1 and candidates[-1].concludes:
                return candidates[-1].options
            if weight == 2:  # "C is correct. It is B."
                options = options.union(
                    *(
                        commitment.options
                        for commitment in by_weight[1]
                        if commitment.sentence > candidates[-1].sentence
                    )
                )
            return options
    if by_weight[0]:
        return frozenset(_option(mark) for mark in _MARKS.findall(text))
    return frozenset()


def _sentences(text: str) -> list[str]:
    """Return the sentences of a marked text. "C. Rickets" is one sentence, and so is "Answer:" with the following
    line."""
    parts, start = list[str](), 0
    for match in _ENDS.finditer(text):
        before, after = text[start : match.start()], text[match.end() : match.end() + 1]
        label = (before[-1:] and LABEL <= ord(before[-1]) < TEXT and not before[:-1].strip(" \"'([{:")) or (
            len(before) > 1 and LABEL <= ord(before[-1]) < SMALL and after and TEXT <= ord(after) < ord(REJECTED)
        )
        if label and after and TEXT <= ord(after) < ord(REJECTED) and match.group().startswith("."):
            continue
        if match.group().startswith("\n") and _HEADING.search(before):
            continue
        if before.strip():
            parts.append(text[start : match.end()].strip())
        start = match.end()
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts


def _commitments(sentence: str, position: _Position) -> list[_Commitment]:
    if not _MARKS.search(sentence):
        return []
    is_question = sentence.endswith(("?", '?"')) and not (
        position.first and position.last and not _QUESTION.search(sentence)
    )
    if is_question or "吗" in sentence or (_SUPPOSED.search(sentence) and not _FORCED.search(sentence)):
        return []
    text = _RETURN.sub("actually", _ABBREVIATED.sub("", sentence))
    text = _CONCEDED.sub("", text)
    text = _WRONG.sub(REJECTED, _DENIED.sub(REJECTED, text))
    concludes = bool(_CONCLUDES.search(sentence))
    turns = [match.end() for match in _TURN.finditer(text)]
    pieces = [text[turns[-1] :], text[: turns[-1]]] if turns else [text]
    for is_turn, piece in zip((bool(turns), False), pieces, strict=False):
        commitment = _piece_commitment(piece, position)
        if commitment is not None:
            weight, options = commitment
            if turns and not is_turn and weight < 3 and _TAKEN_BACK.search(pieces[0]):
                return []
            return [_Commitment(weight, position.sentence, options, concludes or is_turn)]
    return []


def _option(mark: str) -> int:
    return (ord(mark) - LABEL) % (SMALL - LABEL)


def _piece_commitment(piece: str, position: _Position) -> tuple[int, frozenset[int]] | None:
    """Return the weight and the options of the commitment of a piece of a sentence; ``None`` if it has none.

    A text that reasons goes through the options, so only its end counts.
    """
    if not _MARKS.search(piece):
        return None
    is_short = not position.reasons
    may_conclude = is_short or position.last
    is_label, is_option_alone = LABEL <= ord(_MARKS.findall(piece)[0]) < TEXT, _ITSELF.match(piece) is not None
    may_begin = position.last and is_option_alone and not position.listed
    if not may_begin and not position.lists and (is_short or position.first):
        may_begin = position.first or (is_label and (position.last or not is_option_alone))
        may_begin = may_begin and (is_short or is_label)
    may_think = may_conclude and (is_label or position.last or (position.first and position.sentences <= _BRIEF))
    for weight, pattern, applies in (
        (3, _ANSWER, True), (3, _CHOSEN, may_conclude), (2, _RIGHT, may_conclude), (1, _INSTEAD, may_conclude),
        (1, _THOUGHT, may_think), (1, _BEGUN, may_think), (1, _DIAGNOSED, may_think),
        (1, _COMES_TO, position.last), (0, _MIGHT, is_short),
        (1, _FIRST, may_begin),
    ):  # fmt: skip
        if not applies:
            continue
        options: frozenset[int] = frozenset()
        for match in pattern.finditer(piece):
            if not _OTHERS.search(piece, 0, match.start("first")) and _is_valid(pattern, piece, match):
                options |= _options(piece, match, weight)
        if options:
            return weight, options
    small_label = _SMALL_FIRST.match(piece) if may_begin else None
    return (1, frozenset([_option(small_label.group("a") or small_label.group("b"))])) if small_label else None


def _is_valid(pattern: re.Pattern[str], piece: str, match: re.Match[str]) -> bool:
    if pattern is _DIAGNOSED:
        return not _FAMILY.search(piece)
    if pattern is _COMES_TO and _POSSIBLY.search(piece, 0, match.start("first")):
        return False
    if pattern in (_FIRST, _COMES_TO, _BEGUN):
        return not _TURNED_DOWN.match(piece, match.end("first"))
    if pattern is _ANSWER and match.group().lower().startswith("answer choice"):
        return False
    if pattern is not _ANSWER or not (gap := (match.group("gap") or "").strip()):
        return True
    lists = match.group("is") in (":", "-", "–") and not match.group().lower().startswith(("answer", "antwort"))
    return not lists and not _UNSAID.search(gap) and not _LABELLED.match(gap)


def _options(piece: str, match: re.Match[str], weight: int) -> frozenset[int]:
    """Return the options that a commitment names: its own and those named together with it.

    If it is only a thought, every other option that the piece does not deny is included.
    """
    marks = match.group("first") + "".join(_MARKS.findall(match.group("more")))
    after = re.match(r"\s?[.):,=(–-]{0,2}\s?[\"'(]?([\ue800-\uebff])", piece[match.end() : match.end() + 8])
    if after:  # "C. Rickets": a label with another option's text names two
        marks += after.group(1)
    before = re.search(
        rf"({_ANY}){_CLOSE}\s?(?:or|and|/|,|或|和|、)\s?(?:the |option |it is |which is ){{0,2}}$",
        piece[: match.start("first")][-40:],
    )
    if before:
        marks += before.group(1)
    if re.search(r"\balso\s", match.group(), re.IGNORECASE):
        return frozenset([*map(_option, marks), _ANOTHER])
    if _EITHER.search(match.group()) and len(set(map(_option, marks))) == 1:
        return frozenset([_option(marks[0]), _ANOTHER])
    if weight < 2:
        marks += "".join(re.findall(_NAMED if match.group("first") < chr(TEXT) else _LEAD, piece))
    return frozenset(map(_option, marks))
