"""The papers that results come from; `SOURCE.at("Theorem 5")` is a place in one."""

from rankfall.theory.core.result import Source

ZHANG = Source("Zhang, Saxe and Latham", 2025, "TMLR, arXiv 2406.12615")
LE = Source("Le and Jegelka", 2022, "ICLR, arXiv 2201.11968")
FREI = Source("Frei, Vardi, Bartlett, Srebro and Hu", 2023, "ICLR, arXiv 2210.07082")
SUN = Source("Sun and Tran", 2024, "unpublished report, University of California, Davis")
KOU = Source("Kou, Chen and Gu", 2023, "NeurIPS, arXiv 2310.18935")
LYU_LI = Source("Lyu and Li", 2020, "ICLR, arXiv 1906.05890")
LYU_2021 = Source("Lyu, Li, Wang and Arora", 2021, "NeurIPS, arXiv 2110.13905")
PHUONG = Source("Phuong and Lampert", 2021, "ICLR")
BOURSIER = Source("Boursier, Pillaud-Vivien and Flammarion", 2022, "NeurIPS, arXiv 2206.00939")
TIMOR = Source("Timor, Vardi and Shamir", 2023, "ALT, arXiv 2201.12760")
MIN = Source("Min, Mallada and Vidal", 2024, "ICLR, arXiv 2307.12851")
SARUSSI = Source("Sarussi, Brutzkus and Globerson", 2021, "ICML")
HASHIMOTO = Source("Hashimoto", 2025, "arXiv 2505.16204")
