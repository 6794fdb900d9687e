import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import {
  type Label,
  LabelStatus,
  type Return,
  ReturnMethod,
  ReturnState,
  ReturnStateSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { type Html, html } from '../oauth/pages/html.ts';
import { definitionList, problemText } from '../oauth/pages/layout.ts';
import type { PageResponse } from '../oauth/pages/response.ts';
import { amountRows } from './choose-page.ts';
import { shopperPage, type View } from './frame.ts';
import { isTextName, type Words } from './words.ts';

const STATES = enumText(ReturnStateSchema);

const MOVING: readonly LabelStatus[] = [
  LabelStatus.IN_TRANSIT,
  LabelStatus.OUT_FOR_DELIVERY,
  LabelStatus.DELIVERED,
];

/** The page on which a shopper follows a return. */
export function statusPage(
  view: View,
  o: { readonly of: Return; readonly mayCancel: boolean; readonly problem?: string },
): PageResponse {
  const { words } = view;
  const { of } = o;
  const label = of.labels.at(-1);
  const isLive = of.state === ReturnState.OPEN || of.state === ReturnState.REVIEW;
  const rows = [
    [
      words.text('orderName', { name: of.order?.name ?? '' }),
      words.text('returnNumber', { id: String(of.id) }),
    ] as const,
    ...of.lineItems.map(({ title, quantity }) => [title, String(quantity)] as const),
    ...amountRows(of, words),
  ];
  return shopperPage(view, {
    title: words.text('statusTitle'),
    body: html`<h1>${words.text('statusTitle')}</h1>
<p class="lead">${stateText(of.state, words)}</p>
${problemText(o.problem)}
${isLive ? html`<p>${next(of, label, words)}</p>${labelPart(label, words)}` : undefined}
<h2>${words.text('steps')}</h2>
${steps(of, label, words)}
<h2>${words.text('items')}</h2>
${definitionList(rows)}
<p class="note">${words.text('keepLink')}</p>
${
  o.mayCancel
    ? html`<form method="post" action="${view.here}/cancel"><p class="note">${words.text('cancelSure')}</p><button class="quiet">${words.text('cancelButton')}</button></form>`
    : undefined
}`,
  });
}

function stateText(state: ReturnState, words: Words): string {
  const name = `state_${STATES.toText(state)}`;
  return words.text(isTextName(name) ? name : 'state_open');
}

function next({ returnMethod }: Return, label: Label | undefined, words: Words): string {
  if (returnMethod !== ReturnMethod.MAIL) return words.text('nextBring');
  return words.text(label ? 'nextMail' : 'nextNoLabel');
}

function labelPart(label: Label | undefined, words: Words): Html | undefined {
  if (!label) return undefined;
  // A label's address is a text of a partner.
  const link = /^https?:\/\//.test(label.url)
    ? html`<p><a class="action" href="${label.url}" rel="noopener noreferrer">${words.text('printLabel')}</a></p>`
    : undefined;
  const tracking =
    label.trackingNumber === ''
      ? undefined
      : html`<p>${words.text('tracking')}: <strong>${label.trackingNumber}</strong></p>`;
  return html`${link}${tracking}`;
}

function steps(of: Return, label: Label | undefined, words: Words): Html {
  const isMail = of.returnMethod === ReturnMethod.MAIL;
  const isMoving = label !== undefined && MOVING.includes(label.status);
  const [arrived] = of.lineItems.flatMap(({ returnedAt }) => returnedAt ?? []);
  const isClosed = of.state === ReturnState.CLOSED;
  const [refund] = of.refunds;
  const all: (readonly [
    name: Parameters<Words['text']>[0],
    isDone: boolean,
    at?: Timestamp | undefined,
  ])[] = [
    ['step_submitted', true, of.createdAt],
    ...(isMail
      ? ([
          ['step_label', label !== undefined, label?.createdAt],
          ['step_transit', isMoving, isMoving ? label.updatedAt : undefined],
        ] as const)
      : []),
    ['step_arrived', arrived !== undefined, arrived],
    ['step_paid', isClosed, isClosed ? (refund?.createdAt ?? of.updatedAt) : undefined],
  ];
  const lines = all.map(([name, isDone, at]) => {
    const when = at
      ? html`<time datetime="${timestampDate(at).toISOString()}">${words.time(timestampDate(at))}</time>`
      : html`<span class="open">${isDone ? '' : words.text('stepOpen')}</span>`;
    return html`<li${isDone ? html` class="done"` : undefined}>${words.text(name)}${when}</li>
`;
  });
  return html`<ol class="steps">
${lines}</ol>`;
}
