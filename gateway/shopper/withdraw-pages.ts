import { html } from '../oauth/pages/html.ts';
import { definitionList, problemText } from '../oauth/pages/layout.ts';
import type { PageResponse } from '../oauth/pages/response.ts';
import { STEP } from './choose-page.ts';
import { shopperPage, type View } from './frame.ts';
import type { Words } from './words.ts';

// The withdrawal from a contract: Directive 2011/83/EU, Article 11a, as Directive (EU) 2023/2673 inserted it.

/** What a shopper declares (Article 11a(2)): name, contract, and where the acknowledgement goes. */
export interface Declaration {
  readonly orderName: string;
  readonly name: string;
  readonly email: string;
}

/** The fields of the forms. */
export const WITHDRAW = { order: 'order', name: 'name', email: 'email', key: 'key' } as const;

/** The first step: the declaration. It asks for nothing else, and for no reason. */
export function withdrawPage(
  view: View,
  o: Declaration & { readonly problem?: string | undefined },
): PageResponse {
  const { text } = view.words;
  return shopperPage(view, {
    status: o.problem === undefined ? 200 : 422,
    title: text('withdrawLink'),
    body: html`<h1>${text('withdrawLink')}</h1>
<p class="lead">${text('withdrawLead')}</p>
${problemText(o.problem)}
<form method="post" action="${view.here}">
<label for="name">${text('withdrawName')}</label>
<input id="name" name="${WITHDRAW.name}" type="text" autocomplete="name" maxlength="191" required value="${o.name}">
<label for="order">${text('order')}<span class="hint" id="order-hint">${text('orderHint')}</span></label>
<input id="order" name="${WITHDRAW.order}" type="text" autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="191" required aria-describedby="order-hint" value="${o.orderName}">
<label for="email">${text('withdrawEmail')}<span class="hint" id="email-hint">${text('withdrawEmailHint')}</span></label>
<input id="email" name="${WITHDRAW.email}" type="email" autocomplete="email" inputmode="email" autocapitalize="none" spellcheck="false" maxlength="320" required aria-describedby="email-hint" value="${o.email}">
<button name="step" value="${STEP.check}">${text('next')}</button>
</form>`,
  });
}

/** The second step (Article 11a(3)): a button that says nothing but that it confirms the withdrawal. */
export function confirmPage(view: View, o: Declaration & { readonly key: string }): PageResponse {
  const { words } = view;
  const hidden = (name: string, value: string) =>
    html`<input type="hidden" name="${name}" value="${value}">`;
  return shopperPage(view, {
    title: words.text('withdrawSure'),
    body: html`<h1>${words.text('withdrawSure')}</h1>
<p class="lead">${words.text('withdrawStatement')}</p>
${definitionList(declarationRows(o, words))}
<form method="post" action="${view.here}">
${hidden(WITHDRAW.name, o.name)}${hidden(WITHDRAW.order, o.orderName)}${hidden(WITHDRAW.email, o.email)}${hidden(WITHDRAW.key, o.key)}
<button name="step" value="${STEP.send}">${words.text('withdrawButton')}</button>
<button class="quiet" name="step" value="${STEP.change}">${words.text('changeButton')}</button>
</form>`,
  });
}

/** The acknowledgement (Article 11a(4)): the content of the declaration, and the date and time of its receipt. */
export function withdrawnPage(
  view: View,
  o: Declaration & { readonly declaredAt: Date; readonly isMailed: boolean },
): PageResponse {
  const { words } = view;
  return shopperPage(view, {
    title: words.text('withdrawDone'),
    body: html`<h1>${words.text('withdrawDone')}</h1>
<p class="lead">${words.text('withdrawDoneText')}${o.isMailed ? ` ${words.text('withdrawMail', { email: o.email })}` : ''}</p>
<p>${words.text('withdrawStatement')}</p>
${definitionList([...declarationRows(o, words), [words.text('withdrawAt'), words.time(o.declaredAt)]])}`,
  });
}

/** The parts of a declaration, each with its name. */
export function declarationRows(
  { orderName, name, email }: Declaration,
  words: Words,
): (readonly [string, string])[] {
  return [
    [words.text('withdrawName'), name],
    [words.text('order'), orderName],
    [words.text('withdrawEmail'), email],
  ];
}
