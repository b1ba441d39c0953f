"""The papers behind the methods, each once: registries name them, and `plan compare --cite` prints them as BibTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paper:
    """What a bibliography says of a paper."""

    key: str
    authors: str
    """As BibTeX has them, "Family, Given and Family, Given"; an institution has no comma."""
    title: str
    venue: str
    """Where it appeared, with volume and pages where there are any; empty: a report on its own."""
    year: int
    url: str
    short_venue: str = ""

    @property
    def words(self) -> str:
        """The paper in one line of text."""
        families = [name.partition(",")[0] for name in self.authors.split(" and ")]
        names = " and ".join(families) if len(families) < 3 else f"{families[0]} et al."
        return ", ".join(filter(None, (names, self.title, f"{self.short_venue} {self.year}".strip())))

    @property
    def bibtex(self) -> str:
        """The paper's BibTeX entry; braces keep the capitals of names in the title."""
        authors = self.authors if "," in self.authors else f"{{{self.authors}}}"
        fields = {
            "author": authors,
            "title": f"{{{self.title}}}",
            "howpublished": self.venue,
            "year": str(self.year),
            "url": self.url,
        }
        lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])


def _neurips(number: int) -> dict[str, str]:
    return {"venue": f"Advances in Neural Information Processing Systems {number}", "short_venue": "NeurIPS"}


TARNAWSKI = Paper(
    "tarnawski2020placement",
    "Tarnawski, Jakub and Phanishayee, Amar and Devanur, Nikhil R. and Mahajan, Divya and Nina Paravecino, Fanny",
    "Efficient Algorithms for Device Placement of DNN Graph Operators",
    year=2020,
    url="https://papers.neurips.cc/paper/2020/hash/b14680dec683e744ada1f2fe08614086-Abstract.html",
    **_neurips(33),
)
PIPER = Paper(
    "tarnawski2021piper",
    "Tarnawski, Jakub and Narayanan, Deepak and Phanishayee, Amar",
    "Piper: Multidimensional Planner for DNN Parallelization",
    year=2021,
    url="https://papers.neurips.cc/paper/2021/hash/d01eeca8b24321cd2fe89dd85b9beb51-Abstract.html",
    **_neurips(34),
)
BEAUMONT = Paper(
    "beaumont2020pipelined",
    "Beaumont, Olivier and Eyraud-Dubois, Lionel and Shilova, Alena",
    "Pipelined Model Parallelism: Complexity Results and Memory Considerations",
    "Report hal-02968802, Inria",
    2020,
    "https://inria.hal.science/hal-02968802v1",
    "hal-02968802,",
)
GRAPHPIPE = Paper(
    "jeon2025graphpipe",
    "Jeon, Byungsoo and Wu, Mengdi and Cao, Shiyi and Kim, Sunghyun and Park, Sunghyun and Aggarwal, Neeraj and "
    "Unger, Colin and Arfeen, Daiyaan and Liao, Peiyuan and Miao, Xupeng and Alizadeh, Mohammad and "
    "Ganger, Gregory R. and Chen, Tianqi and Jia, Zhihao",
    "GraphPipe: Improving Performance and Scalability of DNN Training with Graph Pipeline Parallelism",
    "ASPLOS 2025; arXiv:2406.17145",
    2025,
    "https://arxiv.org/abs/2406.17145",
    "ASPLOS",
)
ZERO_BUBBLE = Paper(
    "qi2024zero",
    "Qi, Penghui and Wan, Xinyi and Huang, Guangxing and Lin, Min",
    "Zero Bubble Pipeline Parallelism",
    "ICLR 2024; arXiv:2401.10241",
    2024,
    "https://arxiv.org/abs/2401.10241",
    "ICLR",
)
V_SHAPES = Paper(
    "qi2024controllable",
    "Qi, Penghui and Wan, Xinyi and Amar, Nyamdavaa and Lin, Min",
    "Pipeline Parallelism with Controllable Memory",
    "NeurIPS 2024; arXiv:2405.15362",
    2024,
    "https://arxiv.org/abs/2405.15362",
    "NeurIPS",
)
DUALPIPE = Paper(
    "deepseek2024v3",
    "DeepSeek-AI",
    "DeepSeek-V3 Technical Report",
    "arXiv:2412.19437",
    2024,
    "https://arxiv.org/abs/2412.19437",
)
GPIPE = Paper(
    "huang2019gpipe",
    "Huang, Yanping and Cheng, Youlong and Bapna, Ankur and Firat, Orhan and Chen, Dehao and Chen, Mia Xu and "
    "Lee, HyoukJoong and Ngiam, Jiquan and Le, Quoc V. and Wu, Yonghui and Chen, Zhifeng",
    "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
    year=2019,
    url="https://arxiv.org/abs/1811.06965",
    **_neurips(32),
)
PIPEDREAM = Paper(
    "narayanan2019pipedream",
    "Narayanan, Deepak and Harlap, Aaron and Phanishayee, Amar and Seshadri, Vivek and Devanur, Nikhil R. and "
    "Ganger, Gregory R. and Gibbons, Phillip B. and Zaharia, Matei",
    "PipeDream: Generalized Pipeline Parallelism for DNN Training",
    "Proceedings of the 27th ACM Symposium on Operating Systems Principles",
    2019,
    "https://www.microsoft.com/en-us/research/publication/pipedream-generalized-pipeline-parallelism-for-dnn-training/",
    "SOSP",
)
MEGATRON = Paper(
    "narayanan2021megatron",
    "Narayanan, Deepak and Shoeybi, Mohammad and Casper, Jared and LeGresley, Patrick and Patwary, Mostofa and "
    "Korthikanti, Vijay Anand and Vainbrand, Dmitri and Kashinkunti, Prethvi and Bernauer, Julie and "
    "Catanzaro, Bryan and Phanishayee, Amar and Zaharia, Matei",
    "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
    "SC 2021; arXiv:2104.04473",
    2021,
    "https://arxiv.org/abs/2104.04473",
    "SC",
)
METIS = Paper(
    "karypis1998fast",
    "Karypis, George and Kumar, Vipin",
    "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs",
    "SIAM Journal on Scientific Computing 20(1), 359-392",
    1998,
    "https://doi.org/10.1137/S1064827595287997",
    "SIAM J. Sci. Comput.",
)
PROFILES = Paper(
    "dolan2002profiles",
    "Dolan, Elizabeth D. and Moré, Jorge J.",
    "Benchmarking Optimization Software with Performance Profiles",
    "Mathematical Programming 91, 201-213",
    2002,
    "https://arxiv.org/abs/cs/0102001",
    "Math. Program.",
)
HIGHS = Paper(
    "huangfu2018highs",
    "Huangfu, Qi and Hall, J. A. Julian",
    "Parallelizing the Dual Revised Simplex Method",
    "Mathematical Programming Computation 10(1), 119-142; the solver HiGHS",
    2018,
    "https://doi.org/10.1007/s12532-017-0130-5",
    "Math. Program. Comput.",
)
CP_SAT = Paper(
    "perron2024cpsat",
    "Perron, Laurent and Didier, Frédéric",
    "CP-SAT",
    "Google OR-Tools",
    2024,
    "https://developers.google.com/optimization/cp/cp_solver",
)
SCIP = Paper(
    "bolusani2024scip",
    "Bolusani, Suresh and Besançon, Mathieu and others",
    "The SCIP Optimization Suite 9.0",
    "arXiv:2402.17702",
    2024,
    "https://arxiv.org/abs/2402.17702",
)

# Papers by their keys, with which methods name them.
PAPERS: Mapping[str, Paper] = {
    paper.key: paper
    for paper in (
        *(TARNAWSKI, PIPER, BEAUMONT, GRAPHPIPE, ZERO_BUBBLE, V_SHAPES, DUALPIPE),
        *(GPIPE, PIPEDREAM, MEGATRON, METIS, PROFILES, HIGHS, CP_SAT, SCIP),
    )
}
# The paper of each solver, by the solver's name.
SOLVERS: Mapping[str, Paper] = {"highs": HIGHS, "cp-sat": CP_SAT, "scip": SCIP}


def pipeplan_itself(version: str) -> Paper:
    """How this program is cited; CITATION.cff says the same."""
    title = "pipeplan: exact planning of pipeline-parallel DNN training and inference"
    return Paper("pipeplan", "The pipeplan developers", title, f"Software, version {version}", 2026, "")


def bibliography(papers: Iterable[Paper]) -> str:
    """A BibTeX file, each paper once."""
    return "\n\n".join(paper.bibtex for paper in dict.fromkeys(papers)) + "\n"
