"""What the publisher says: a decision as comment and status, the words while a run is under way, and annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gate import render
from gate.commands.artifact_judge import NO_KERNEL_CHANGED
from gate.commands.judged import withheld, worst_first
from gate.model.decision import Decision, RowFinding
from gate.model.reasons import sentence
from gate.model.text import counted
from gate.publish import marker
from gate.publish.sinks import MOST_ANNOTATIONS, Annotation
from gate.publish.values import COMMENT_LIMIT, RANK_OF_STATE, RANKS, SHA, Message, PostedStatus, Run, RunKey, Target
from gate.render import page, words
from gate.render.escape import escape, visible

COMMIT = re.compile(r"[0-9a-f]{7,40}(-dirty)?")
NOTHING = "no kernel changed"
PENDING = "measuring"


def local_run(sha: str, environ: Mapping[str, str]) -> Run:
    """The run that publishes without --run: that of the environment, else none, which is older than any."""
    run_id, attempt = environ.get("GITHUB_RUN_ID", ""), environ.get("GITHUB_RUN_ATTEMPT", "1")
    key = RunKey(int(run_id), int(attempt)) if run_id.isdigit() and attempt.isdigit() else RunKey(0, 0)
    server, repo = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
    url = f"{server}/{repo}/actions/runs/{key.run}" if key.run and server and repo else ""
    return Run(
        key=key, event="local", path="", title="", conclusion="success", head_sha=sha, head_branch=None, head_repo=None,
        head_owner=None, url=url,
    )  # fmt: skip


def unless_finished(decision: Decision, run: Run) -> Decision:
    """The decision itself where the run succeeded, else a no-verdict with the same rows: half a run is no run."""
    if run.conclusion == "success":
        return decision
    why = f"the run that measured ended: {run.conclusion or 'not yet'}"
    return withheld(decision, "run_unfinished", problems=[why], next_step="see the run's log, then run it again")


def of_other_commit(decision: Decision, sha: str) -> str:
    """What to say where head is of other commits than `sha`; empty where it is not, or the rows name no commit."""
    named = [one.strip() for one in decision.environment.head.get("candidate_commit", "").split(",")]
    commits = [one for one in named if COMMIT.fullmatch(one)]
    if not commits or any(sha.startswith(one.removesuffix("-dirty")) for one in commits):
        return ""
    told = ", ".join(one[:12] for one in commits)
    return f"the decision is of commit {told}, and --sha says {sha[:12]}: what is sent is of {sha[:12]} all the same"


def is_quiet(decision: Decision) -> bool:
    """Whether there is nothing to tell beyond the status: a pass in which every single row is unchanged."""
    total = decision.counts.get("total", 0)
    same = decision.counts.get("unchanged", 0) == total and all(row.verdict == "unchanged" for row in decision.rows)
    plain = not decision.problems and not decision.environment.differences
    return decision.gate == "pass" and same and plain


def pending(target: Target, *, context: str) -> Message:
    """The status while the run is under way."""
    url = target.run.attempt_url if target.run.url else ""
    return Message(
        key=target.run.key, body="", rank=0, state="pending", description=PENDING, target_url=url, context=context
    )


def message(decision: Decision, target: Target, *, name: str, context: str, quiet: bool) -> Message:
    """All that one finished run has to say."""
    run = target.run
    url = run.attempt_url if run.url else ""
    status = render.status(decision, url or None)
    nothing = decision.reasons == (NO_KERNEL_CHANGED,)
    facts = marker.facts(key=run.key, head=target.sha, headline=decision.headline)
    foot = footer(target.sha, run.key, url)
    body = (
        f"{page.marker(name, facts)}\n✅ {NOTHING}\n"
        if nothing
        else render.comment(decision, budget=COMMENT_LIMIT - len(foot.encode()), key=name, facts=facts)
    )
    return Message(
        key=run.key,
        body=body + foot,
        rank=RANKS[decision.headline],
        state=status.state,
        description=NOTHING if nothing else status.description,
        target_url=url,
        quiet=quiet,
        context=context,
    )


def footer(sha: str, key: RunKey, url: str) -> str:
    """The last line: which commit and which run; all of it comes from the API."""
    run = f", [run {key.run} attempt {key.attempt}]({url})" if url else ""
    return f"\n<sub>Commit <code>{sha[:12]}</code>{run}</sub>\n"


def briefly(name: str, context: str) -> Callable[[PostedStatus, str], Message]:
    """Makes the short comment that stands in for a newer run's own, from the status that it posted."""

    def brief(status: PostedStatus, sha: str) -> Message:
        key = status.key or RunKey(0, 0)
        headline = next(word for word, rank in RANKS.items() if rank == RANK_OF_STATE.get(status.state, 3))
        head = sha if SHA.fullmatch(sha) else "unknown"
        facts = marker.facts(key=key, head=head, headline=headline, brief=True)
        text = escape(status.description or status.state)
        body = f"{page.marker(name, facts)}\n**{text}**\n\nThe details are in the run's summary.\n"
        return Message(
            key=key,
            body=body + footer(sha, key, status.target_url),
            rank=RANK_OF_STATE.get(status.state, 3),
            state=status.state,  # type: ignore[arg-type]  # as GitHub has it
            description=status.description,
            target_url=status.target_url,
            quiet=True,
            context=context,
        )

    return brief


def worst(decision: Decision) -> list[Annotation]:
    """The worst rows as annotations; the last one says how many more there are."""
    rows = worst_first(decision)
    shown = rows if len(rows) <= MOST_ANNOTATIONS else rows[: MOST_ANNOTATIONS - 1]
    found = [_annotation(row) for row in shown]
    if len(rows) > len(shown):
        more = f"{counted(len(rows) - len(shown), 'more row')}: see the summary"
        found.append(Annotation(level="error", title="gate", message=more))
    if decision.gate == "no_verdict" and not rows:
        why = "; ".join(sentence(code) for code in decision.reasons[:3])
        found.append(Annotation(level="error", title="gate: no verdict", message=visible(why)))
    return found


def _annotation(row: RowFinding) -> Annotation:
    change = f" {words.change(row.ratio)}" if words.finite(row.ratio) else ""
    title = f"{words.VERDICT_WORDS[row.verdict]}: {visible(words.label_text(row), limit=90)}"
    why = "; ".join(sentence(code) for code in row.reasons[:3]) or words.VERDICT_WORDS[row.verdict]
    where = f"{row.model}, {row.stage}"
    return Annotation(level="error", title=title, message=visible(f"{where}:{change} {why}. {row.detail}", limit=600))
