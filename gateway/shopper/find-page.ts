import { html } from '../oauth/pages/html.ts';
import { problemText } from '../oauth/pages/layout.ts';
import type { PageResponse } from '../oauth/pages/response.ts';
import { shopperPage, type View } from './frame.ts';

/** The fields of the form of {@link findPage}. */
export const FIND = { order: 'order', proof: 'proof' } as const;

/** The first page: a form with the order's name and its e-mail address. */
export function findPage(
  view: View,
  o: {
    readonly order?: string;
    readonly proof?: string;
    readonly problem?: string;
    readonly status?: number;
  } = {},
): PageResponse {
  const { text } = view.words;
  return shopperPage(view, {
    status: o.status ?? 200,
    title: text('findTitle'),
    body: html`<h1>${text('findTitle')}</h1>
<p class="lead">${text('findLead')}</p>
${problemText(o.problem)}
<form method="post" action="${view.base}">
<label for="order">${text('order')}<span class="hint" id="order-hint">${text('orderHint')}</span></label>
<input id="order" name="${FIND.order}" type="text" autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="191" required aria-describedby="order-hint" value="${o.order ?? ''}">
<label for="proof">${text('proof')}<span class="hint" id="proof-hint">${text('proofHint')}</span></label>
<input id="proof" name="${FIND.proof}" type="text" autocomplete="email" inputmode="email" autocapitalize="none" spellcheck="false" maxlength="320" required aria-describedby="proof-hint" value="${o.proof ?? ''}">
<button>${text('findButton')}</button>
</form>`,
  });
}
