import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type ItemSelector,
  AutomaticProcessing_Moment as Moment,
  type Policy,
  type PolicySchema,
  RefundBasis,
  type ReturnWindow,
  ReturnWindow_Start as Start,
  WithdrawalHandling,
} from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import type { Outcome, ReturnMethod } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';

// A policy as the form has it: numbers and lists are the texts that a person types.

export interface WindowDraft {
  /** Empty: without end. */
  readonly days: string;
  readonly from: Start;
}

/** Each is a list with one value in a line. */
export interface ItemsDraft {
  readonly productIds: string;
  readonly skus: string;
  readonly tags: string;
}

export interface ExceptionDraft {
  readonly items: ItemsDraft;
  /** Undefined: that of the policy. */
  readonly window: WindowDraft | undefined;
  readonly outcomes: readonly Outcome[];
}

export interface ReasonDraft {
  readonly code: string;
  readonly parent: string;
  readonly label: Readonly<Record<string, string>>;
  readonly asksComment: boolean;
  readonly waivesFee: boolean;
}

export interface FeeDraft {
  readonly returnMethod: ReturnMethod;
  readonly outcome: Outcome;
  readonly kind: 'amount' | 'percentage';
  readonly value: string;
}

export interface ReviewDraft {
  readonly valueAbove: string;
  readonly reasons: readonly string[];
  /** Empty: not a condition. */
  readonly returnsAbove: string;
  readonly returnsDays: string;
  readonly fraudReport: boolean;
  readonly missing: boolean;
}

export interface Draft {
  readonly window: WindowDraft;
  readonly finalSale: ItemsDraft;
  readonly exceptions: readonly ExceptionDraft[];
  /** Codes of countries, with commas or spaces between them. */
  readonly countries: string;
  readonly outcomes: readonly Outcome[];
  readonly returnMethods: readonly ReturnMethod[];
  readonly reasons: readonly ReasonDraft[];
  readonly fees: readonly FeeDraft[];
  readonly review: ReviewDraft;
  readonly process: { readonly moment: Moment; readonly upTo: string };
  readonly refundBasis: RefundBasis;
  readonly withdrawals: WithdrawalHandling;
}

/** A part of a policy, which a colleague may change while somebody else changes another one. */
export type Part = keyof Draft;

const EMPTY_REVIEW = {
  valueAbove: '',
  reasons: [],
  returnsAbove: 0,
  returnsDays: 0,
  fraudReport: false,
  missing: false,
};

export function draftOf(policy: Policy | undefined): Draft {
  const review = policy?.review ?? EMPTY_REVIEW;
  return {
    window: windowOf(policy?.window),
    finalSale: itemsOf(policy?.finalSale),
    exceptions: (policy?.exceptions ?? []).map(({ items, window, outcomes }) => ({
      items: itemsOf(items),
      window: window && windowOf(window),
      outcomes,
    })),
    countries: (policy?.countries ?? []).join(', '),
    outcomes: policy?.outcomes ?? [],
    returnMethods: policy?.returnMethods ?? [],
    reasons: (policy?.reasons ?? []).map(({ code, parent, label, asksComment, waivesFee }) => ({
      ...{ code, parent, asksComment, waivesFee },
      label: { ...label },
    })),
    fees: (policy?.fees ?? []).map(({ returnMethod, outcome, fee }) => ({
      returnMethod,
      outcome,
      kind: fee.case ?? 'amount',
      value: fee.value ?? '',
    })),
    review: {
      valueAbove: review.valueAbove,
      reasons: review.reasons,
      returnsAbove: review.returnsDays === 0 ? '' : String(review.returnsAbove),
      returnsDays: review.returnsDays === 0 ? '' : String(review.returnsDays),
      fraudReport: review.fraudReport,
      missing: review.missing,
    },
    process: {
      moment: policy?.process?.moment || Moment.MANUAL,
      upTo: policy?.process?.upTo ?? '',
    },
    refundBasis: policy?.refundBasis || RefundBasis.ANNOUNCED,
    withdrawals: policy?.withdrawals || WithdrawalHandling.MANUAL,
  };
}

function windowOf(window: ReturnWindow | undefined): WindowDraft {
  return { days: String(window?.days ?? ''), from: window?.from || Start.DELIVERED };
}

function itemsOf(items: ItemSelector | undefined): ItemsDraft {
  const lines = (values: readonly (string | bigint)[] | undefined) => (values ?? []).join('\n');
  return {
    productIds: lines(items?.productIds),
    skus: lines(items?.skus),
    tags: lines(items?.tags),
  };
}

export const NO_ITEMS: ItemsDraft = { productIds: '', skus: '', tags: '' };

/** The values of a list with one in a line. Empty lines and repeats are none. */
export function linesIn(text: string): string[] {
  return [...new Set(text.split('\n').map((line) => line.trim()))].filter((line) => line !== '');
}

/** The codes of countries in a text. */
export function countriesIn(text: string): string[] {
  return [...new Set(text.toUpperCase().split(/[^A-Z]+/))].filter((code) => code !== '');
}

/** Whether the items are none at all. */
export function isEmpty({ productIds, skus, tags }: ItemsDraft): boolean {
  return `${productIds}${skus}${tags}`.trim() === '';
}

/** The request of a draft. An absent part allows everything. */
export function policyOf(draft: Draft): MessageInitShape<typeof PolicySchema> {
  const { review, process } = draft;
  const hasReturns = review.returnsDays !== '' && review.returnsAbove !== '';
  return {
    ...(draft.window.days !== '' && { window: windowIn(draft.window) }),
    ...(!isEmpty(draft.finalSale) && { finalSale: itemsIn(draft.finalSale) }),
    exceptions: draft.exceptions.map(({ items, window, outcomes }) => ({
      items: itemsIn(items),
      ...(window && { window: windowIn(window) }),
      outcomes: [...outcomes],
    })),
    countries: countriesIn(draft.countries),
    outcomes: [...draft.outcomes],
    returnMethods: [...draft.returnMethods],
    reasons: draft.reasons.map(({ label, ...reason }) => ({
      ...reason,
      label: textsIn(label),
    })),
    fees: draft.fees.map(({ returnMethod, outcome, kind, value }) => ({
      returnMethod,
      outcome,
      fee: { case: kind, value: value.trim() },
    })),
    review: {
      valueAbove: review.valueAbove.trim(),
      reasons: [...review.reasons],
      ...(hasReturns && {
        returnsAbove: Number(review.returnsAbove),
        returnsDays: Number(review.returnsDays),
      }),
      fraudReport: review.fraudReport,
      missing: review.missing,
    },
    process: {
      moment: process.moment,
      upTo: process.moment === Moment.MANUAL ? '' : process.upTo.trim(),
    },
    refundBasis: draft.refundBasis,
    withdrawals: draft.withdrawals,
  };
}

function textsIn(label: ReasonDraft['label']): Record<string, string> {
  const texts = Object.entries(label).filter(([, text]) => text.trim() !== '');
  return Object.fromEntries(texts.toSorted(([one], [other]) => one.localeCompare(other)));
}

function windowIn({ days, from }: WindowDraft) {
  return days === '' ? {} : { days: Number(days), from };
}

function itemsIn({ productIds, skus, tags }: ItemsDraft) {
  return {
    productIds: linesIn(productIds).filter(isId).map(BigInt),
    skus: linesIn(skus),
    tags: linesIn(tags),
  };
}

/** Whether a line can be the id of a product. */
function isId(line: string): boolean {
  return /^[1-9]\d{0,15}$/.test(line);
}

/** At most so many values in a list of goods. */
const ITEMS_MAX = 1_000;

/** What is wrong with lists of goods, for each list; undefined when nothing is. */
export function problemsOfItems(
  items: ItemsDraft,
): Readonly<Record<keyof ItemsDraft, string | undefined>> {
  const tooMany = (text: string) =>
    linesIn(text).length > ITEMS_MAX ? `At most ${ITEMS_MAX} values.` : undefined;
  const notId = linesIn(items.productIds).find((line) => !isId(line));
  const stars = linesIn(items.skus).find((line) => line.split('*').length > 2);
  return {
    productIds:
      notId === undefined ? tooMany(items.productIds) : `${notId} is no number of a product.`,
    skus: stars === undefined ? tooMany(items.skus) : `${stars} has more than one *.`,
    tags: tooMany(items.tags),
  };
}

/** The first thing that is wrong with the goods of a draft, with its part. The browser checks single fields. */
export function problemIn(draft: Draft): readonly [Part, string] | undefined {
  const firstOf = (items: ItemsDraft) =>
    Object.values(problemsOfItems(items)).find((problem) => problem !== undefined);
  const inSale = firstOf(draft.finalSale);
  if (inSale !== undefined) return ['finalSale', inSale];
  for (const { items } of draft.exceptions) {
    const problem = isEmpty(items) ? 'An exception needs goods.' : firstOf(items);
    if (problem !== undefined) return ['exceptions', problem];
  }
  return undefined;
}

/** The parts of `mine` that differ from `other`, however they are written. */
export function changedParts(mine: Draft, other: Draft): Part[] {
  const [one, two] = [normal(mine), normal(other)];
  return (Object.keys(mine) as Part[]).filter((part) => one[part] !== two[part]);
}

/** Each part as a text that is the same for the same rules. */
function normal(draft: Draft): Readonly<Record<string, string>> {
  const policy = policyOf(draft);
  const text = (value: unknown) => JSON.stringify(value, comparable) ?? '';
  return Object.fromEntries(
    Object.keys(draft).map((part) => [part, text(Reflect.get(policy, part))]),
  );
}

/** The fields with an amount or a percentage, which the service writes with all decimals. */
const DECIMALS: ReadonlySet<string> = new Set(['valueAbove', 'upTo', 'value']);

/** A value of a policy as JSON has it. A list of plain values has no order. */
function comparable(field: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  if (DECIMALS.has(field) && value !== '') return Number(value);
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object'))
    return value.toSorted();
  return value;
}

/**
 * What a colleague saved, with the parts that the user has changed since `base`.
 *
 * @returns `both` are the parts that both have changed, each in another way; they are the user's in `draft`.
 */
export function merged(o: { readonly base: Draft; readonly mine: Draft; readonly theirs: Draft }): {
  readonly draft: Draft;
  readonly both: Part[];
} {
  const own = changedParts(o.mine, o.base);
  const others = new Set(changedParts(o.theirs, o.base));
  const differing = new Set(changedParts(o.mine, o.theirs));
  const kept = Object.fromEntries(own.map((part) => [part, o.mine[part]]));
  return {
    draft: { ...o.theirs, ...kept },
    both: own.filter((part) => others.has(part) && differing.has(part)),
  };
}
