"""The spec read as whole-text operations, as plainly as they can be written. Slow and not incremental: a second opinion."""

from __future__ import annotations

import re

NAME = r"[A-Za-z_:][A-Za-z0-9_:.-]*"
GAP = "\x1e"  # white space to `re` and to `str`; no test text has it
SPEAKER_FLAGS = ("chatCompleteAddUserAssistant", "chatCompletionAddMissingAssistantGenerator")


def thinking(text: str, endpoint: dict) -> tuple[str, list[str]]:
    if not endpoint.get("removeThinking"):
        return text, []
    routed = endpoint.get("reasoningOutput", "drop") != "drop"
    if names := endpoint.get("thinkTagNames"):
        keep = endpoint.get("whenEndThinkTagMissing") == "keep" and not routed
        return _by_names(text, names, keep)
    start, end = endpoint.get("startThinkTag", ""), endpoint.get("endThinkTag", "")
    only_closing = endpoint.get("expectOnlyClosingThinkTag", False)
    if not end or not (start or only_closing):
        return text, []
    default = "discard" if only_closing else "keep"
    keep = endpoint.get("whenEndThinkTagMissing", default) == "keep" and not routed
    if only_closing:
        closing = re.search(re.escape(end), text, re.I)
        if not closing:
            return (text if keep else ""), []
        return text[closing.end() :], [text[: closing.start()]]
    opening = re.search(re.escape(start), text, re.I)
    if not opening or opening.start() > endpoint.get("openingTagGracePeriod", 100):
        return text, []
    closing = re.compile(re.escape(end), re.I).search(text, opening.end())
    if not closing:
        return (text if keep else text[: opening.start()]), []
    return text[: opening.start()] + text[closing.end() :], [text[opening.end() : closing.start()]]


def _by_names(text: str, names: list[str], keep: bool) -> tuple[str, list[str]]:
    space, name = "[ \t\n\f\r]*", "(?:" + "|".join(map(re.escape, names)) + ")"
    opening, closing = f"<{space}{name}{space}>", f"<{space}/{space}{name}{space}>"

    def search(pattern: str, position: int) -> re.Match[str] | None:
        for found in re.compile(f"(?=({pattern}))", re.I).finditer(text, position):
            if len(found[1]) <= 64:
                return found
        return None

    out, thoughts, position, searched = "", [], 0, 0
    while start := search(opening, searched):
        inside = searched = start.end(1)
        if _in_code(out + text[position : start.start()]):
            continue
        end = search(closing, inside)
        out += text[position : start.start()]
        if not end:
            return out + (text[start.start() :] if keep else ""), thoughts
        thoughts.append(text[inside : end.start()])
        position = searched = end.end(1)
    return out + text[position:], thoughts


def _in_code(visible: str) -> bool:
    """Whether Markdown code is open at the end of `visible`."""
    *lines, last = visible.split("\n")
    fence = ""
    for line in lines:
        line = line.removesuffix("\r")
        if not fence:
            opened = re.match(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})", line, re.DOTALL)
            fence = opened[1] if opened else ""
        elif re.match(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*\Z", line):
            fence = ""
    if fence or re.match(" {0,3}~~~", last):
        return True
    return len(re.findall("`+", last)) % 2 == 1


def inline_xml(text: str, tags: str | list[str], collapse: bool) -> str:
    name = NAME if tags == "*" else "|".join(re.escape(tag) for tag in tags) or "(?!)"
    text = re.sub(rf"<({name})(?:\s[^>]*)?(?<!/)>.*?</\1>", GAP, text, flags=re.DOTALL)
    text = re.sub(rf"<(?:{name})(?:\s[^>]*)?/>", GAP, text)
    if collapse:
        return " ".join(text.split())

    def seam(run: re.Match[str]) -> str:
        before, after = text[: run.start()][-1:], text[run.end() :][:1]
        return " " if before and after and not before.isspace() and not after.isspace() else ""

    return re.sub(f"{GAP}+", seam, text)


def start_of_answer(text: str, endpoint: dict, node: dict, user: dict, prompt: str | None) -> str:
    text = text.lstrip()
    if prompt:
        prompt = prompt.strip()
        if not 1 <= text.find(":") <= len(prompt) + 9:
            text = f"{prompt} {text}"
    steps = []
    if node.get("removeCustomTextFromResponseStart"):
        steps.append(_listed(node.get("responseStartTextToRemove", [])))
    if endpoint.get("removeCustomTextFromResponseStartEndpointWide"):
        steps.append(
            [entry.strip() for entry in _listed(endpoint.get("responseStartTextToRemoveEndpointWide", []))]
        )
    if node.get("addDiscussionIdTimestampsForLLM"):
        steps.append(["[Sent less than a minute ago]"])
    if all(user.get(flag) for flag in SPEAKER_FLAGS):
        steps.append(["Assistant:"])
    for prefixes in steps:
        for prefix in prefixes:
            if prefix and text.startswith(prefix):
                text = text[len(prefix) :].lstrip()
                break
    return text


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def clean(text: str, endpoint: dict, node: dict, user: dict, prompt: str | None) -> tuple[str, list[str]]:
    text, thoughts = thinking(text, endpoint)
    strip = endpoint.get("stripInlineXmlTags", False)
    if strip:
        options = {} if strip is True else strip
        text = inline_xml(text, options.get("tags", "*"), options.get("collapseWhitespace", True))
    text = start_of_answer(text, endpoint, node, user, prompt)
    return (text.strip() if endpoint.get("trimBeginningAndEndLineBreaks") else text), thoughts
