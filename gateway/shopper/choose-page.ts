import { timestampDate } from '@bufbuild/protobuf/wkt';
import {
  type EligibleLine,
  Ineligibility_CodeSchema,
} from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { Outcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { Html, html } from '../oauth/pages/html.ts';
import { definitionList, problemText } from '../oauth/pages/layout.ts';
import type { PageResponse } from '../oauth/pages/response.ts';
import {
  type Choice,
  type ChosenLine,
  methodsOf,
  methodWord,
  type Offer,
  outcomesOf,
  outcomeWord,
  reasonLabel,
  titleOf,
} from './choice.ts';
import { shopperPage, type View } from './frame.ts';
import { isTextName, type Words } from './words.ts';

const CODES = enumText(Ineligibility_CodeSchema);

/** The buttons of the two forms. */
export const STEP = { check: 'check', send: 'send', change: 'change' } as const;

/** The second page: the lines of the order, and what the shopper wants for them. */
export function choosePage(
  view: View,
  o: {
    readonly offer: Offer;
    readonly choice: Choice;
    readonly problem?: string | undefined;
    readonly status?: number;
  },
): PageResponse {
  const { words } = view;
  const { eligibility } = o.offer;
  const canReturn = eligibility.lines.some((line) => line.returnableQuantity > 0);
  const items = o.choice.lines.map((chosen) => itemFields(chosen, o.offer, words));
  return shopperPage(view, {
    status: o.status ?? 200,
    title: words.text('chooseTitle'),
    body: html`<h1>${words.text('chooseTitle')}</h1>
<p class="lead">${words.text('orderName', { name: eligibility.orderName })}</p>
${problemText(o.problem ?? (canReturn ? undefined : words.text('nothingLeft')))}
<form method="post" action="${view.base}/return">
${items}${
  canReturn
    ? html`${outcomeFields(o.choice, o.offer, words)}${methodFields(o.choice, o.offer, words)}<button name="step" value="${STEP.check}">${words.text('next')}</button>`
    : undefined
}
</form>`,
  });
}

function itemFields(
  { line, units, reason, comment }: ChosenLine,
  offer: Offer,
  words: Words,
): Html {
  const title = titleOf(line);
  const left = line.returnableQuantity;
  const picture = /^https:\/\//.test(line.image)
    ? html`<img src="${line.image}" alt="" referrerpolicy="no-referrer" loading="lazy" width="64" height="64">`
    : undefined;
  const [why] = line.reasons;
  const facts = [
    words.count('ordered', line.orderedQuantity),
    ...(left > 0 && left < line.orderedQuantity ? [words.count('returnable', left)] : []),
  ].join(', ');
  return html`<div class="item">${picture}<div>
<p><strong>${title}</strong></p>
<p class="hint">${facts}</p>
${why && left < line.orderedQuantity ? html`<p>${whyText(CODES.toText(why.code), words)}</p>` : undefined}
${left > 0 ? lineFields({ line, units, reason, comment }, offer, words) : undefined}
</div></div>
`;
}

function lineFields(
  { line, units, reason, comment }: ChosenLine,
  offer: Offer,
  words: Words,
): Html {
  const id = line.providerLineItemId;
  const { windowEndsAt } = line;
  const counts = Array.from({ length: Math.min(line.returnableQuantity, MAX_UNITS) + 1 }, (_, n) =>
    option(String(n), n === 0 ? words.text('none') : String(n), n === units),
  );
  const reasons = offer.reasons.map((one) =>
    option(one.code, reasonLabel(one, words), one.code === reason),
  );
  const reasonField =
    offer.reasons.length === 0
      ? undefined
      : html`<label for="reason-${id}">${words.text('reason')}</label>
<select id="reason-${id}" name="reason_${id}">${option('', words.text('chooseReason'), reason === '')}${reasons}</select>`;
  return html`${windowEndsAt && html`<p class="hint">${words.text('until', { date: words.day(timestampDate(windowEndsAt)) })}</p>`}
<label for="units-${id}">${words.text('units')}</label>
<select id="units-${id}" name="units_${id}" aria-label="${words.text('unitsOf', { title: titleOf(line) })}">${counts}</select>
${reasonField}
<label for="comment-${id}">${words.text('commentOptional')}</label>
<textarea id="comment-${id}" name="comment_${id}" rows="2" maxlength="2000">${comment}</textarea>`;
}

/** The units in one list. A shopper with more returns the rest in a second return. */
const MAX_UNITS = 100;

function option(value: string, label: string, isChosen: boolean): Html {
  const selected = isChosen ? new Html(' selected') : undefined;
  return html`<option value="${value}"${selected}>${label}</option>`;
}

function whyText(code: string, words: Words): string {
  const name = `why_${code}`;
  return words.text(isTextName(name) ? name : 'why_other');
}

function radios(o: {
  readonly name: string;
  readonly legend: string;
  readonly values: readonly (readonly [value: string, label: string])[];
  readonly chosen: string;
}): Html {
  const choices = o.values.map(([value, label]) => {
    const checked = value === o.chosen ? new Html(' checked') : undefined;
    return html`<label class="choice"><input type="radio" name="${o.name}" value="${value}"${checked}>${label}</label>
`;
  });
  return html`<fieldset><legend>${o.legend}</legend>
${choices}</fieldset>
`;
}

function outcomeFields({ outcome }: Choice, { eligibility }: Offer, words: Words): Html {
  const values = outcomesOf(eligibility).map(
    (one) => [outcomeWord(one), outcomeText(one, words)] as const,
  );
  return radios({
    ...{ name: 'outcome', legend: words.text('outcome'), values },
    chosen: outcomeWord(outcome),
  });
}

function outcomeText(outcome: Outcome, words: Words): string {
  const name = `outcome_${outcomeWord(outcome)}`;
  return isTextName(name) ? words.text(name) : outcomeWord(outcome);
}

function methodFields({ method }: Choice, { eligibility }: Offer, words: Words): Html | undefined {
  const methods = methodsOf(eligibility);
  if (methods.length < 2) return undefined;
  const values = methods.map((one) => {
    const name = `method_${methodWord(one)}`;
    return [methodWord(one), isTextName(name) ? words.text(name) : methodWord(one)] as const;
  });
  return radios({
    ...{ name: 'method', legend: words.text('method'), values },
    chosen: methodWord(method),
  });
}

/**
 * The third page: what is returned and what comes back, before it is sent.
 *
 * @param o.made the return that would be made.
 * @param o.key names this submission, so that a second click makes no second return.
 */
export function checkPage(
  view: View,
  o: { readonly choice: Choice; readonly made: Return; readonly key: string },
): PageResponse {
  const { words } = view;
  const chosen = o.choice.lines.filter(({ units }) => units > 0);
  const hidden = (name: string, value: string) =>
    html`<input type="hidden" name="${name}" value="${value}">`;
  const fields = chosen.flatMap(({ line: { providerLineItemId: id }, units, reason, comment }) => [
    hidden(`units_${id}`, String(units)),
    hidden(`reason_${id}`, reason),
    hidden(`comment_${id}`, comment),
  ]);
  return shopperPage(view, {
    title: words.text('checkTitle'),
    body: html`<h1>${words.text('checkTitle')}</h1>
<p class="lead">${words.text('checkLead')}</p>
${definitionList([
  ...chosen.map(({ line, units }) => [titleOf(line), String(units)] as const),
  ...amountRows(o.made, words),
])}
<form method="post" action="${view.base}/return">
${fields}${hidden('outcome', outcomeWord(o.choice.outcome))}${hidden('method', methodWord(o.choice.method))}${hidden('key', o.key)}
<button name="step" value="${STEP.send}">${words.text('sendButton')}</button>
<button class="quiet" name="step" value="${STEP.change}">${words.text('changeButton')}</button>
</form>`,
  });
}

/** What comes back of a return, in the currency of the shopper's payment. */
export function amountRows(made: Return, words: Words): (readonly [string, string])[] {
  const { presentmentTotals: totals, presentmentCurrency: currency, outcome } = made;
  if (!totals) return [];
  const isNone = (amount: string) => !/[1-9]/.test(amount);
  const row = (name: Parameters<Words['text']>[0], amount: string) =>
    isNone(amount) ? [] : [[words.text(name), words.money(amount, currency)] as const];
  return [
    ...row('goods', totals.returnTotal),
    ...row('shipping', totals.refundShippingTotal),
    ...row('fee', totals.handlingFee),
    ...row('backMoney', totals.refund),
    ...row('backCredit', totals.giftCard),
    ...(outcome === Outcome.EXCHANGE ? [[words.text('backItem'), ''] as const] : []),
  ];
}

/** The lines of an order, nothing of which is chosen yet. A single unit is chosen, because there is nothing to choose. */
export function unchosen(lines: readonly EligibleLine[]): Readonly<Record<string, string>> {
  const [only, ...others] = lines.filter((line) => line.returnableQuantity > 0);
  if (!only || others.length > 0 || only.returnableQuantity !== 1) return {};
  return { [`units_${only.providerLineItemId}`]: '1' };
}
