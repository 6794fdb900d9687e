import {
  AutomaticProcessing_Moment as Moment,
  RefundBasis,
  ReturnWindow_Start as Start,
  WithdrawalHandling,
} from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { count } from '../../words.ts';
import {
  countriesIn,
  type Draft,
  type ExceptionDraft,
  type FeeDraft,
  type ItemsDraft,
  isEmpty,
  linesIn,
  type Part,
  type ReasonDraft,
  type ReviewDraft,
  type WindowDraft,
} from './draft.ts';

// The rules of a policy in plain sentences.

export const PART_TITLES: Readonly<Record<Part, string>> = {
  window: 'Time limit',
  finalSale: 'Goods that never come back',
  exceptions: 'Goods with rules of their own',
  countries: 'Countries',
  outcomes: 'What shoppers get',
  returnMethods: 'How goods come back',
  reasons: 'Reasons',
  fees: 'Fees',
  review: 'Review',
  process: 'Processing without a person',
  refundBasis: 'What is paid',
  withdrawals: 'Withdrawals from the contract',
};

export const OUTCOMES: readonly (readonly [Outcome, string])[] = [
  [Outcome.EXCHANGE, 'exchange'],
  [Outcome.UPSELL, 'exchange for something dearer'],
  [Outcome.REFUND, 'refund'],
  [Outcome.CREDIT, 'store credit'],
  [Outcome.EXCHANGE_REFUND, 'exchange, and a refund of the rest'],
  [Outcome.EXCHANGE_CREDIT, 'exchange, and credit for the rest'],
];

export const METHODS: readonly (readonly [ReturnMethod, string])[] = [
  [ReturnMethod.MAIL, 'by mail'],
  [ReturnMethod.IN_STORE, 'in a store'],
  [ReturnMethod.DROP_OFF, 'at a drop-off point'],
  [ReturnMethod.KEEP_ITEM, 'the shopper keeps the goods'],
];

export const STARTS: readonly (readonly [Start, string])[] = [
  [Start.DELIVERED, 'the delivery'],
  [Start.FULFILLED, 'the shipment'],
  [Start.ORDERED, 'the order'],
];

export const MOMENTS: readonly (readonly [Moment, string, string])[] = [
  [Moment.MANUAL, 'Never', 'A person processes each return.'],
  [Moment.IN_TRANSIT, 'On the way', 'A return is processed when its parcel is on the way.'],
  [Moment.DELIVERED, 'Delivered', 'A return is processed when its parcel was delivered to you.'],
  [Moment.ARRIVED, 'Arrived', 'A return is processed when all announced units have arrived.'],
  [
    Moment.GRADED,
    'Graded',
    'A return is processed when the condition of all its goods is recorded.',
  ],
];

export const BASES: readonly (readonly [RefundBasis, string, string])[] = [
  [RefundBasis.ANNOUNCED, 'What was announced', 'We pay the units that the shopper announced.'],
  [
    RefundBasis.ARRIVED,
    'What arrived',
    'We pay only the units that arrived undamaged, and those that a person accepted.',
  ],
];

export const WITHDRAWALS: readonly (readonly [WithdrawalHandling, string, string])[] = [
  [WithdrawalHandling.MANUAL, 'By hand', 'A person decides what becomes of a withdrawal.'],
  [
    WithdrawalHandling.RETURN,
    'A return at once',
    'A withdrawal becomes a return at once, if its order and e-mail address match.',
  ],
];

/** The sentences of one part. @param currency of the shop, such as `GBP`. */
export function sentencesOf(part: Part, draft: Draft, currency: string): string[] {
  switch (part) {
    case 'window':
      return [windowSentence(draft.window)];
    case 'finalSale':
      return [
        isEmpty(draft.finalSale)
          ? 'No goods are excluded.'
          : `These never come back: ${itemsText(draft.finalSale)}.`,
      ];
    case 'exceptions':
      return draft.exceptions.length === 0
        ? ['No goods have rules of their own.']
        : draft.exceptions.map(exceptionSentence);
    case 'countries':
      return [countriesSentence(draft.countries)];
    case 'outcomes':
      return [`Shoppers may choose ${choiceText(draft.outcomes, OUTCOMES)}.`];
    case 'returnMethods':
      return [`Goods may come back in ${choiceText(draft.returnMethods, METHODS, 'way')}.`];
    case 'reasons':
      return reasonSentences(draft.reasons);
    case 'fees':
      return feeSentences(draft.fees, currency);
    case 'review':
      return reviewSentences(draft, currency);
    case 'process':
      return processSentences(draft.process, currency);
    case 'refundBasis':
      return [BASES.find(([basis]) => basis === draft.refundBasis)?.[2] ?? ''];
    case 'withdrawals':
      return [WITHDRAWALS.find(([handling]) => handling === draft.withdrawals)?.[2] ?? ''];
  }
}

function windowSentence(window: WindowDraft): string {
  if (window.days === '') return 'Goods may come back without a time limit.';
  const unknown =
    window.from === Start.DELIVERED
      ? ' If the time of the delivery is not known, the days count from the shipment.'
      : '';
  return `Goods may come back ${windowText(window)}.${unknown}`;
}

function windowText({ days, from }: WindowDraft): string {
  if (days === '') return 'without a time limit';
  const start = STARTS.find(([one]) => one === from)?.[1] ?? 'the delivery';
  return `within ${count(Number(days), 'day')} after ${start}`;
}

/** Lists are cut after this many values. */
const SHOWN = 5;

function listText(values: readonly string[]): string {
  const more = values.length - SHOWN;
  const shown = values.slice(0, SHOWN).join(', ');
  return more > 0 ? `${shown} and ${more} more` : shown;
}

function itemsText({ productIds, skus, tags }: ItemsDraft): string {
  const parts = [
    ['products', linesIn(productIds)],
    ['SKUs', linesIn(skus)],
    ['tags', linesIn(tags)],
  ] as const;
  return parts
    .filter(([, values]) => values.length > 0)
    .map(([name, values]) => `${name} ${listText(values)}`)
    .join('; ');
}

function exceptionSentence({ items, window, outcomes }: ExceptionDraft): string {
  const rules = [
    ...(window ? [windowText(window)] : []),
    ...(outcomes.length > 0 ? [`${choiceText(outcomes, OUTCOMES)} only`] : []),
  ];
  const what = isEmpty(items) ? 'No goods yet' : capital(itemsText(items));
  return `${what}: ${rules.length > 0 ? rules.join(', ') : 'as all goods'}.`;
}

const COUNTRY = new Intl.DisplayNames(undefined, { type: 'region', fallback: 'code' });

/** The name of a country; its code when it is none. */
function countryName(code: string): string {
  try {
    return COUNTRY.of(code) ?? code;
  } catch {
    return code;
  }
}

function countriesSentence(text: string): string {
  const codes = countriesIn(text);
  if (codes.length === 0) return 'Orders from every country may come back.';
  return `Only orders that were shipped to these may come back: ${codes.map(countryName).join(', ')}.`;
}

function choiceText<T extends number>(
  chosen: readonly T[],
  all: readonly (readonly [T, string])[],
  noun = 'outcome',
): string {
  if (chosen.length === 0 || chosen.length === all.length) return `every ${noun}`;
  const names = all.filter(([one]) => chosen.includes(one)).map(([, name]) => name);
  return noun === 'outcome' ? names.join(' or ') : `one of these ways: ${names.join('; ')}`;
}

/** What a reason is called. */
export function reasonName({ code, label }: ReasonDraft): string {
  return label.en || Object.values(label).find((text) => text !== '') || code || 'without a name';
}

function reasonSentences(reasons: readonly ReasonDraft[]): string[] {
  if (reasons.length === 0) return ['Shoppers say in their own words why they return.'];
  const named = (has: (reason: ReasonDraft) => boolean) => reasons.filter(has).map(reasonName);
  const [asking, free] = [named((one) => one.asksComment), named((one) => one.waivesFee)];
  return [
    `Shoppers choose ${reasons.length === 1 ? 'this reason' : `one of ${reasons.length} reasons`}: ${listText(reasons.map(reasonName))}.`,
    ...(asking.length > 0 ? [`They must comment on: ${listText(asking)}.`] : []),
    ...(free.length > 0 ? [`These cost no fee: ${listText(free)}.`] : []),
  ];
}

function feeSentences(fees: readonly FeeDraft[], currency: string): string[] {
  if (fees.length === 0) return ['Returns cost the shopper nothing.'];
  const rules = fees.map(({ returnMethod, outcome, kind, value }) => {
    const method = METHODS.find(([one]) => one === returnMethod)?.[1];
    const chosen = OUTCOMES.find(([one]) => one === outcome)?.[1];
    const what = [chosen, method].filter((text) => text !== undefined).join(', ');
    const fee =
      kind === 'amount' ? `${value || '…'} ${currency}` : `${value || '…'} % of the goods`;
    return `${capital(what || 'every return')}: ${fee}.`;
  });
  return [
    ...rules,
    ...(fees.length > 1 ? ['The first that fits counts.'] : []),
    'A fee is never above what the shopper gets.',
  ];
}

function reviewSentences({ review, reasons }: Draft, currency: string): string[] {
  const conditions = reviewConditions(review, { reasons, currency });
  if (conditions.length === 0) return ['No return is put into review by itself.'];
  return [`A return is put into review if ${conditions.join(', or if ')}.`];
}

function reviewConditions(
  { valueAbove, reasons: codes, returnsAbove, returnsDays, fraudReport, missing }: ReviewDraft,
  { reasons, currency }: { readonly reasons: readonly ReasonDraft[]; readonly currency: string },
): string[] {
  const names = codes.map((code) => {
    const reason = reasons.find((one) => one.code === code);
    return reason ? reasonName(reason) : code;
  });
  const hasReturns = returnsAbove !== '' && returnsDays !== '';
  return [
    ...(valueAbove === '' ? [] : [`its goods are worth more than ${valueAbove} ${currency}`]),
    ...(names.length === 0 ? [] : [`its reason is ${names.join(' or ')}`]),
    ...(hasReturns
      ? [
          `the shopper has more than ${count(Number(returnsAbove), 'return')} in ${count(Number(returnsDays), 'day')}`,
        ]
      : []),
    ...(fraudReport ? ['the shopper has an open fraud report'] : []),
    ...(missing ? ['goods are missing'] : []),
  ];
}

function processSentences({ moment, upTo }: Draft['process'], currency: string): string[] {
  const sentence = MOMENTS.find(([one]) => one === moment)?.[2] ?? '';
  if (moment === Moment.MANUAL) return [sentence];
  return [
    sentence,
    ...(upTo === '' ? [] : [`A person processes those that pay more than ${upTo} ${currency}.`]),
    'Returns in review always wait for a person.',
  ];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
