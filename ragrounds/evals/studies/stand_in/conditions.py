"""Twelve common conditions in our own words: what the made-up retrieval sets and case reports are written from.

Textbook knowledge in plain sentences, made up for exercising a study. No source was copied, and none of it is advice.
"""

from __future__ import annotations

from msgspec import Struct


class Disease(Struct, frozen=True, kw_only=True):
    """One condition, in English and Chinese. The stories do not name it."""

    key: str
    name: str
    system: str
    story: str
    """How a patient describes it and what is found, without the name."""
    test: str
    treatment: str
    mechanism: str
    chinese: str
    """The name."""
    chinese_question: str
    chinese_answer: str
    chinese_synonym: tuple[str, str, str]
    """A sentence, one of the same meaning, and one of another."""


CONDITIONS = (
    Disease(
        key="iron",
        name="iron deficiency anaemia",
        system="blood",
        story=(
            "A woman with heavy periods is tired and short of breath on stairs. She is pale and her nails "
            "are spoon-shaped."
        ),
        test="a serum ferritin",
        treatment="oral iron, and a search for the place of the bleeding",
        mechanism=(
            "Without iron the bone marrow cannot fill red cells with haemoglobin, so that they are small and pale"
        ),
        chinese="缺铁性贫血",
        chinese_question="月经量多，总是头晕乏力，指甲变脆怎么办？",
        chinese_answer="缺铁性贫血常由月经过多引起，应查血清铁蛋白，口服铁剂并找出出血的原因。",
        chinese_synonym=("患者长期贫血，面色苍白。", "病人一直血色素低，脸色发白。", "患者长期腹泻，面色红润。"),
    ),
    Disease(
        key="thyroid",
        name="hypothyroidism",
        system="endocrine",
        story="A man gains weight, feels cold all day and is constipated. His pulse is slow and his skin is dry.",
        test="a thyrotropin level",
        treatment="levothyroxine once a day, before breakfast",
        mechanism=(
            "The thyroid makes too little hormone, the pituitary asks for more, and the whole metabolism slows down"
        ),
        chinese="甲状腺功能减退",
        chinese_question="最近怕冷、发胖、便秘，心跳也慢，是什么原因？",
        chinese_answer="甲状腺功能减退会让人怕冷和体重增加，应查促甲状腺激素，确诊后每天服用左甲状腺素。",
        chinese_synonym=("他的甲状腺功能偏低。", "他有甲减。", "他的甲状腺功能偏高。"),
    ),
    Disease(
        key="appendix",
        name="acute appendicitis",
        system="digestive",
        story=(
            "A student has pain that began around the navel and has moved to the right lower belly. He "
            "vomits and has fever."
        ),
        test="an ultrasound of the right lower abdomen",
        treatment="removal of the appendix through small cuts",
        mechanism="A stone closes the narrow end of the bowel, pressure rises behind it, and bacteria enter the wall",
        chinese="急性阑尾炎",
        chinese_question="肚脐周围疼，后来转到右下腹，还发烧呕吐，要紧吗？",
        chinese_answer="转移性右下腹痛伴发热多见于急性阑尾炎，应做腹部超声，一般需要手术切除阑尾。",
        chinese_synonym=("右下腹有压痛。", "按压右侧下腹部时会疼。", "左上腹没有压痛。"),
    ),
    Disease(
        key="embolism",
        name="pulmonary embolism",
        system="lungs",
        story=(
            "Ten days after a knee operation a woman is suddenly short of breath, with a stab on each "
            "breath. One calf is swollen."
        ),
        test="a computed tomography of the lung arteries with contrast",
        treatment="an anticoagulant for at least three months",
        mechanism=(
            "A clot from a leg vein passes the right heart and closes an artery of the lung, behind which no "
            "blood is aerated"
        ),
        chinese="肺栓塞",
        chinese_question="膝关节手术后突然胸痛气短，小腿肿，会是什么病？",
        chinese_answer="手术后突发气短要警惕肺栓塞，应做肺动脉增强扫描，并使用抗凝药至少三个月。",
        chinese_synonym=("患者突然呼吸困难。", "病人忽然喘不上气。", "患者呼吸一直平稳。"),
    ),
    Disease(
        key="gout",
        name="gout",
        system="joints",
        story=(
            "After a feast a man wakes at night because of his big toe, which is red, hot and too tender for a sheet."
        ),
        test="a look at the joint fluid under polarised light",
        treatment="colchicine now, and allopurinol later to lower the uric acid",
        mechanism=(
            "Uric acid above its solubility forms needles in cool joints, and white cells that eat them call for more"
        ),
        chinese="痛风",
        chinese_question="吃完海鲜半夜大脚趾又红又肿疼醒了，怎么处理？",
        chinese_answer="这是痛风急性发作的典型表现，可用秋水仙碱止痛，缓解后再降尿酸，并少吃海鲜。",
        chinese_synonym=("他的血尿酸升高。", "他尿酸偏高。", "他的血糖升高。"),
    ),
    Disease(
        key="asthma",
        name="asthma",
        system="lungs",
        story="A child coughs at night and wheezes when he runs in cold air. Between attacks his chest is clear.",
        test="a spirometry before and after a bronchodilator",
        treatment="an inhaled corticosteroid each day, with a reliever for attacks",
        mechanism=(
            "The lining of the airways is inflamed, its muscle contracts at small provocations, and the airways narrow"
        ),
        chinese="支气管哮喘",
        chinese_question="孩子夜里总咳嗽，跑步后胸口有哨音，怎么检查？",
        chinese_answer="夜间咳嗽和运动后喘鸣提示支气管哮喘，应做肺功能检查，每天吸入激素，发作时用缓解药。",
        chinese_synonym=("孩子运动后喘息。", "小孩跑完步气喘。", "孩子运动后很轻松。"),
    ),
    Disease(
        key="migraine",
        name="migraine",
        system="nerves",
        story=(
            "A teacher sees zigzag lines, and then one side of her head throbs for hours. Light hurts and "
            "she feels sick."
        ),
        test="nothing more than a careful history where the examination is normal",
        treatment="a triptan early in the attack, and a beta blocker where attacks are frequent",
        mechanism=(
            "A wave of silenced nerve cells crosses the cortex, and nerves around the vessels of the brain "
            "lining report pain"
        ),
        chinese="偏头痛",
        chinese_question="眼前出现闪光后半边头跳着疼，怕光恶心，吃什么药？",
        chinese_answer="有先兆的单侧搏动性头痛多为偏头痛，发作早期可用曲普坦类药，频繁发作者可用药预防。",
        chinese_synonym=("她一侧头痛。", "她半边头疼。", "她一侧腰痛。"),
    ),
    Disease(
        key="coeliac",
        name="coeliac disease",
        system="digestive",
        story="A young man has loose stools, bloating and a low blood count. He feels worse after bread and pasta.",
        test="antibodies against tissue transglutaminase",
        treatment="a diet without gluten for life",
        mechanism=(
            "Gluten starts an immune attack on the small bowel, whose villi shrink, so that iron and fat are "
            "not taken up"
        ),
        chinese="乳糜泻",
        chinese_question="一吃面包就腹胀拉肚子，还贫血，是过敏吗？",
        chinese_answer="吃面食后腹泻并贫血要考虑乳糜泻，应查组织转谷氨酰胺酶抗体，确诊后终身无麸质饮食。",
        chinese_synonym=("他经常腹泻。", "他老拉肚子。", "他经常便秘。"),
    ),
    Disease(
        key="addison",
        name="adrenal insufficiency",
        system="endocrine",
        story="A woman has lost weight, craves salt and faints when she stands up. The creases of her palms are dark.",
        test="a stimulation with synthetic corticotropin",
        treatment="hydrocortisone and fludrocortisone, with more in every illness",
        mechanism=(
            "The adrenal cortex is lost, aldosterone and cortisol are missing, and the pituitary's call "
            "darkens the skin"
        ),
        chinese="肾上腺皮质功能不全",
        chinese_question="体重下降，总想吃咸的，站起来就晕，皮肤变黑，查什么？",
        chinese_answer="皮肤变黑、嗜盐和直立性头晕提示肾上腺皮质功能不全，应做促皮质素兴奋试验，补充氢化可的松。",
        chinese_synonym=("她站立时血压下降。", "她一站起来血压就低。", "她站立时血压升高。"),
    ),
    Disease(
        key="ketones",
        name="diabetic ketoacidosis",
        system="endocrine",
        story=(
            "A boy drinks and urinates a great deal, has lost weight, and now breathes deeply. His breath "
            "smells of fruit."
        ),
        test="glucose, blood gases and ketones at once",
        treatment="fluid, insulin by a pump, and potassium under close watch",
        mechanism=(
            "Without insulin cells burn fat, ketones pile up as acids, and sugar in the urine draws water after it"
        ),
        chinese="糖尿病酮症酸中毒",
        chinese_question="孩子喝得多尿得多，呼吸深，嘴里有烂苹果味，怎么回事？",
        chinese_answer="口渴多尿并有烂苹果味呼吸是糖尿病酮症酸中毒的表现，应立即测血糖和血酮，补液并用胰岛素。",
        chinese_synonym=("孩子口渴多饮。", "小孩老是想喝水。", "孩子不想喝水。"),
    ),
    Disease(
        key="pneumonia",
        name="bacterial pneumonia",
        system="lungs",
        story=(
            "An old man has chills, a fever of 39.5 and rusty sputum. Over one lung base the breath sounds are hollow."
        ),
        test="a chest film and a blood culture",
        treatment="amoxicillin, by vein where he is confused or breathless",
        mechanism=(
            "Bacteria fill the air sacs of one lobe with fluid and white cells, and blood that passes there stays dark"
        ),
        chinese="细菌性肺炎",
        chinese_question="老人高烧寒战，咳铁锈色痰，需要住院吗？",
        chinese_answer="高热和铁锈色痰提示细菌性肺炎，应拍胸片并做血培养，可用阿莫西林，气促者需要住院。",
        chinese_synonym=("老人高热。", "老人发高烧。", "老人体温偏低。"),
    ),
    Disease(
        key="cystitis",
        name="cystitis",
        system="urinary",
        story=(
            "A woman passes water every half hour, with burning each time. She has no fever and her flanks "
            "are not tender."
        ),
        test="a dipstick and a culture of the urine",
        treatment="nitrofurantoin for five days",
        mechanism="Bacteria of the bowel climb the short urethra, hold on to the bladder's lining and inflame it",
        chinese="膀胱炎",
        chinese_question="小便又频又急，尿的时候烧得慌，没有发烧，吃什么药？",
        chinese_answer="尿频尿急尿痛而不发热多为膀胱炎，应查尿常规和尿培养，可服呋喃妥因五天。",
        chinese_synonym=("她尿频尿急。", "她小便次数多又憋不住。", "她小便次数少。"),
    ),
)
