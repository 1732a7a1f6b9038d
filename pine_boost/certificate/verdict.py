"""What came of proving a certificate anew.

In come the proofs, an input that breaks the claim if there is one, and remarks; out goes a frozen
Verification with its summary. Proves nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pine_boost.certificate.certificate import Certificate, QuestionProof
from pine_boost.model.forest import FloatArray
from pine_boost.proof.question import Proof


@dataclass(frozen=True, eq=False)
class Counterexample:
    """An input of the region on which the two models differ.

    Attributes
    ----------
    question : str
    row : float64 (n_features,)
        A real input, categories as codes and NaN for missing, as `Region.contains` accepts it.
    original_class, pruned_class : int
        Class indices (score bands with thresholds).
    native : bool
        Whether the native libraries predicted these; otherwise they were added up here.
    """

    question: str
    row: FloatArray
    original_class: int
    pruned_class: int
    native: bool


@dataclass(frozen=True, eq=False, repr=False)
class Verification:
    """What came of proving a certificate anew.

    Attributes
    ----------
    agrees : bool or None
        True: every question was proved by at least one complete method and none objected. False:
        ``counterexample`` breaks the claim. None: the budget ran out.
    proved_twice : bool
        Every question was proved by both methods: CP-SAT and boxes or, in a region of few inputs,
        every input in two ways.
    counterexample : Counterexample or None
    proofs : tuple of Proof
        Every method's answer to every question.
    covered : float
        Smallest share of the region (by number of state rows) that boxes covered in any question;
        1.0 where every question was proved.
    remarks : tuple of str
        Whatever a reader should know beyond that.
    seconds : float
    serving_proved : bool or None
        Whether the certificate's serving margin was proved anew; False: the budget ran out, and
        nothing here speaks for it. None: the certificate has none.
    """

    agrees: bool | None
    proved_twice: bool
    counterexample: Counterexample | None
    proofs: tuple[Proof, ...]
    covered: float
    remarks: tuple[str, ...]
    seconds: float
    serving_proved: bool | None = None

    def summary(self) -> str:
        """A few readable lines."""
        heads = {
            True: "AGREES: the certificate was proved anew",
            False: "DISAGREES: the certificate is wrong",
            None: f"NOT SETTLED: the budget ran out, {self.covered:.1%} of the region is covered",
        }
        head = heads[self.agrees]
        if self.agrees and not self.proofs:
            head = "AGREES"  # the remarks say what was compared
        elif self.agrees:
            head += ", twice, by two methods" if self.proved_twice else ", by one method"
        if self.serving_proved is False:
            head += "; its serving margin was NOT proved anew, the budget ran out"
        lines = [f"{head} ({self.seconds:.1f} s)."]
        for proof in self.proofs:
            share = "" if proof.covered in (None, 1.0) else f", {proof.covered:.1%} covered"
            lines.append(
                f"  {proof.question.name} by {proof.method}: {proof.answer.value} ({proof.seconds:.2f} s{share})"
            )
        if self.counterexample is not None:
            found = self.counterexample
            by = "natively" if found.native else "by exact sums"
            lines.append(
                f"  input {found.row.tolist()}: class {found.original_class} before, {found.pruned_class} after ({by})"
            )
        if self.serving_proved:
            lines.append("  The serving margin was proved anew.")
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks)])

    def record(self, certificate: Certificate) -> Certificate:
        """The certificate with these proofs added, if every question was proved by both methods.

        Otherwise the certificate as it is: a budget that ran out says nothing new.
        """
        if not (self.agrees and self.proved_twice):
            return certificate
        new = [QuestionProof(p.question.name, p.method, p.answer.name) for p in self.proofs]
        added = tuple(proof for proof in new if proof not in certificate.proofs)
        return replace(certificate, proofs=certificate.proofs + added)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<Verification {self.summary().splitlines()[0]}>"
