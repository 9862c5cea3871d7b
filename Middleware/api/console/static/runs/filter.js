// @ts-check
// What stands over the list of runs: which of them are shown.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { heldShown, turnHeld, turnList } from "./columns.js";
import { ListSwitch, Menu } from "../shared/parts.js";
import { turn } from "../shared/place.js";
import { useOneStop } from "../shared/roving.js";
import { useCounts } from "./runs_asked.js";
import { runs, state } from "../shared/server.js";
import { number } from "../shared/words.js";

/** Filters that stand as chips over the list while there is such a run. */
const CHIPS = /** @type {const} */ (["odd", "failed", "waiting", "slow", "kept"]);
const CHIP_TITLES = {
  odd: "failed, or done with trouble",
  failed: "",
  waiting: "for a slot",
  slow: "longer than nine of ten of the same name",
  kept: "until the server restarts",
};
const TYPING_MS = 250;

/** @param {{filter: Record<string, string>}} props */
export function Filter({ filter }) {
  const typing = useRef(0);
  const [text, setText] = useState(filter.text);
  useEffect(() => setText(filter.text), [filter.text]);
  const counts = useCounts();
  const type = (/** @type {any} */ event) => {
    clearTimeout(typing.current);
    const typed = event.target.value;
    setText(typed);
    typing.current = setTimeout(() => turn({ text: typed }), TYPING_MS);
  };
  const chips = CHIPS.filter((name) => counts?.[name] || filter.state === name);
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useOneStop(bar, ":scope > button, :scope > .menu > button");
  return html`<form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <input type="search" placeholder="Find ( / )" aria-label="Find text, id or name" value=${text} onInput=${type} />
    <${ListSwitch} shown="runs" />
    <div class="pills" role="toolbar" aria-label="Which runs" ref=${bar}><${Names} filter=${filter} />
    ${chips.map(
      (name) => html`<button type="button" class="pill" aria-pressed=${filter.state === name}
      title=${CHIP_TITLES[name]} onClick=${() => turn({ state: filter.state === name ? null : name })}>${name}<b>
        ${number(counts?.[name] ?? 0)}</b></button>`,
    )}
    ${
      filter.state &&
      !CHIPS.includes(/** @type {any} */ (filter.state)) &&
      html`<button type="button" class="pill"
      title="any state" onClick=${() => turn({ state: null })}>${filter.state} ×</button>`
    }
    <button type="button" class="pill" aria-pressed=${heldShown.value}
      title="How much of the prompts was held" onClick=${turnHeld}>held</button>
    ${["user", "key", "name", "workflow"].map(
      (name) =>
        filter[name] &&
        html`<button type="button" class="pill"
      title=${`any ${name}`} onClick=${() => turn({ [name]: null })}>${filter[name]} ×</button>`,
    )}
    <button type="button" class="pill fold" title="Fold the list away ( [ )" aria-label="Fold the list away"
      onClick=${turnList}>«</button></div>
  </form>`;
}

/** Users, the model names that were asked and the keys, in one menu. @param {{filter: Record<string, string>}} props */
function Names({ filter }) {
  const users = state.value?.users ?? [];
  const asked = [...new Set([...runs.value.values()].map(({ name }) => name ?? ""))]
    .filter((name) => name && !users.includes(name))
    .sort();
  const keys = [...new Set([...runs.value.values()].map(({ key }) => key ?? ""))].filter(Boolean).sort();
  const choice = (/** @type {string} */ kind) => (/** @type {string} */ name) => ({
    title: name,
    note: kind === "name" ? "" : kind,
    checked: filter[kind] === name,
    act: () => turn({ user: null, key: null, name: null, [kind]: filter[kind] === name ? null : name }),
  });
  const group = (/** @type {string} */ kind, /** @type {string[]} */ names) =>
    names.length ? [null, ...names.map(choice(kind))] : [];
  return html`<${Menu} label="names" items=${[
    ...users.map(choice("user")),
    ...group("name", asked),
    ...group("key", keys),
  ]} />`;
}
