"""Made-up texts for the stand-in: Chinese questions, sentences with relations, and two small knowledge graphs.

All in this project's own words. Drugs and genes of the sentences are invented; the questions are plain textbook facts.
No answer here is advice.
"""

from __future__ import annotations

from collections.abc import Iterator

TCM: tuple[dict[str, object], ...] = tuple(
    {"id": f"tcm{number}", "question": question, "options": list(options), "answer": answer, "language": "zh"}
    for number, (question, options, answer) in enumerate(
        (
            ("五脏之中，主藏血与疏泄的是哪一脏？", ("心", "肝", "脾", "肾"), "B"),
            ("四气之外，药物的五味不包括下列哪一项？", ("辛", "甘", "热", "咸"), "C"),
            ("舌苔黄而厚腻，多提示哪种病邪？", ("湿热", "寒湿", "血虚", "气虚"), "A"),
            ("恶寒重、发热轻、无汗、脉浮紧，属于哪种证候？", ("风热", "暑湿", "燥邪", "风寒"), "D"),
            ("与肺相表里的腑是哪一个？", ("胃", "大肠", "膀胱", "胆"), "B"),
            ("煎药时需要先煎的一般是哪类药物？", ("芳香药", "花叶类", "矿物与贝壳类", "鲜药汁"), "C"),
        ),
        start=1,
    )
)
CLFQA: tuple[dict[str, object], ...] = tuple(
    {"id": f"clfqa{number}", "question": question, "answer": answer, "type": "long", "language": "zh"}
    for number, (question, answer) in enumerate(
        (
            ("高血压患者每天应该怎样测量血压？", "清晨和晚间各测两次，坐位休息五分钟后测量并记录。"),
            ("儿童发热什么时候需要去医院？", "三个月以下婴儿发热，或精神差、抽搐、持续高热时应当就医。"),
            ("糖尿病患者出现低血糖怎么办？", "立即进食含糖食物，十五分钟后复测，仍低则重复并就医。"),
            ("长期服用阿司匹林要注意什么？", "注意消化道出血的迹象，手术前告诉医生，不要自行停药。"),
            ("痛风急性发作时饮食上要注意什么？", "多饮水，避免饮酒和动物内脏，减少海鲜。"),
            ("过敏性鼻炎平时怎样预防发作？", "减少接触尘螨和花粉，按医嘱使用鼻喷剂，保持室内清洁。"),
        ),
        start=1,
    )
)
_CHEMPROT = (
    ("Veralin", "CPR:4", "Corsinase", "Veralin acts as a downregulator of Corsinase in cells of the liver."),
    ("Domarid", "CPR:5", "Tolurin", "Domarid is a partial agonist at Tolurin, as binding studies show."),
    ("Pelasone", "CPR:6", "Miravin", "Pelasone, an antagonist of Miravin, lowered pressure in all animals."),
    ("Quintolol", "CPR:9", "Hepatrase", "Quintolol is a substrate of Hepatrase and is cleared within hours."),
    ("Sarmatine", "CPR:3", "Neuropin", "Sarmatine was found to raise Neuropin threefold in cultured neurons."),
    ("Tramelan", "CPR:4", "Gastrokine", "Tramelan lowers Gastrokine, but only at the highest dose given."),
)
_DDI = (
    ("Veralin", "effect", "Domarid", "Veralin may enhance the effect of Domarid on blood pressure."),
    ("Pelasone", "mechanism", "Quintolol", "Pelasone slows the clearance of Quintolol by the same mechanism."),
    ("Sarmatine", "advise", "Tramelan", "Sarmatine and Tramelan should be given together only with advise."),
    ("Corvadin", "int", "Luminol", "Corvadin interacts with Luminol."),
    ("Beltrane", "effect", "Osmirol", "Beltrane made patients on Osmirol drowsy in two small trials."),
    ("Ferolan", "", "Nidasone", "Ferolan and Nidasone were given to the same group without any change."),
)
_CMEIE = (
    ("肺炎", "临床表现", "发热", "“肺炎”最常见的临床表现是“发热”和咳嗽。"),
    ("缺铁性贫血", "药物治疗", "硫酸亚铁", "“缺铁性贫血”的药物治疗首选“硫酸亚铁”。"),
    ("胆囊结石", "影像学检查", "超声", "怀疑“胆囊结石”时，影像学检查首选“超声”。"),
    ("甲状腺功能亢进", "临床表现", "心悸", "“甲状腺功能亢进”的患者常感到“心悸”。"),
    ("骨质疏松", "病因", "雌激素缺乏", "“骨质疏松”在绝经后的病因多为“雌激素缺乏”。"),
    ("支气管哮喘", "药物治疗", "吸入激素", "“支气管哮喘”可长期使用“吸入激素”控制。"),
)
ADINT = (
    ("donepezil", "treats", "alzheimer disease"),
    ("memantine", "treats", "alzheimer disease"),
    ("physical exercise", "prevents", "cognitive decline"),
    ("mediterranean diet", "prevents", "alzheimer disease"),
    ("lorazepam", "worsens", "confusion"),
    ("anticholinergic drugs", "worsens", "cognitive decline"),
    ("apolipoprotein e4", "predisposes", "alzheimer disease"),
    ("head injury", "predisposes", "dementia"),
)
DRKG = (
    ("metformin", "treats", "type 2 diabetes"),
    ("prednisolone", "palliates", "rheumatoid arthritis"),
    ("ibuprofen", "palliates", "osteoarthritis"),
    ("lisinopril", "treats", "hypertension"),
    ("valproate", "causes", "neural tube defect"),
    ("isoniazid", "causes", "peripheral neuropathy"),
    ("folic acid", "prevents", "neural tube defect"),
    ("aspirin", "prevents", "ischaemic stroke"),
)


def chemprot() -> dict[str, list[str]]:
    """The lines of the organisers' three files."""
    made: dict[str, list[str]] = {"abstracts": [], "entities": [], "gold_standard": []}
    for number, (chemical, group, gene, text) in enumerate(_CHEMPROT, start=101):
        title = f"Effects of {chemical}"
        made["abstracts"].append(f"{number}\t{title}\t{text}")
        whole = f"{title} {text}"
        for id, kind, name in (("T1", "CHEMICAL", chemical), ("T2", "GENE-Y", gene)):
            start = whole.rindex(name)
            made["entities"].append(f"{number}\t{id}\t{kind}\t{start}\t{start + len(name)}\t{name}")
        made["gold_standard"].append(f"{number}\t{group}\tArg1:T1\tArg2:T2")
    return made


def ddi() -> Iterator[dict[str, object]]:
    """The corpus's documents, one sentence each."""
    for number, (first, kind, second, text) in enumerate(_DDI, start=1):
        pair = {"e1": "e0", "e2": "e1", "ddi": "true" if kind else "false", "type": kind or None}
        names = [{"id": "e0", "text": first}, {"id": "e1", "text": second}]
        sentence = {"id": f"s{number}", "text": text, "entities": names, "pairs": [pair]}
        yield {"id": f"made-up-{number}", "split": "Test/Test for DDI Extraction task", "sentences": [sentence]}


def cmeie() -> Iterator[dict[str, object]]:
    """The lines of the set's file."""
    for subject, relation, value, text in _CMEIE:
        stated = {"subject": subject, "predicate": relation, "object": {"@value": value}}
        yield {"text": text, "spo_list": [stated]}
