// What tables have in common.

import { html, type TemplateResult } from "lit-html";

/** A table that is scrolled by itself where the page is narrow. */
export function scrolled(label: string, table: TemplateResult): TemplateResult {
  return html`<div class="scroll" role="region" tabindex="0" aria-label=${label}>${table}</div>`;
}
