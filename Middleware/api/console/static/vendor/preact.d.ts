// What `vendor/preact.js` gives to the page.
export { Fragment, h, render } from "preact";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
/** Elements as htm reads them; what stands in the template is not checked. */
export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
