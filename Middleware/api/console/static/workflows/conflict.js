// @ts-check
// A file that was changed meanwhile: both texts side by side, and the three ways out.
import { html, useState } from "../vendor/preact.js";
import { copied } from "../shared/parts.js";
import { TwoTexts } from "./two_texts.js";

/** @param {{theirs: string, mine: string, keep: () => void, take: () => void, close: () => void}} props */
export function Conflict({ theirs, mine, keep, take, close }) {
  const [word, setWord] = useState("");
  const copy = async () => setWord((await copied(mine)) ? "Copied." : "The browser does not allow copying.");
  return html`<section class="conflict" aria-label="Conflict">
    <p class="notes bad" role="alert">The file has changed.</p>
    <p class="acts"><button type="button" class="main" onClick=${keep}>Keep mine</button><button type="button"
      onClick=${take}>Take theirs</button>
      <button type="button" onClick=${copy}>Copy mine</button><button type="button"
        onClick=${close}>Back to my text</button><span class="dim" role="status">${word}</span></p>
    <${TwoTexts} left=${{ text: theirs, name: "the file as it is now" }} right=${{ text: mine, name: "my text" }} />
  </section>`;
}
