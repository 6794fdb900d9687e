import { create, toJsonString } from '@bufbuild/protobuf';
import { z } from 'zod';
import {
  AutomaticProcessing_Moment as Moment,
  type Policy,
  type PolicyFee,
  PolicySchema,
  RefundBasis,
  ReturnWindow_Start as Start,
  WithdrawalHandling,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { POLICY_BYTES_MAX, SHORT_TEXT_MAX } from '../../contract/limits.ts';
import { countryName } from '../../platform/values/countries.ts';
import { invalidField } from '../../platform/values/errors.ts';
import { id, parseInput, requiredText } from '../../platform/values/input.ts';
import { formatAmount, parseAmount } from '../../platform/values/money.ts';
import { normalForm } from '../../platform/values/text.ts';

// Checks a policy, and makes its canonical form: policies that mean the same are equal.

const DAYS_MAX = 3_650;
const SELECTED_MAX = 1_000;
const ENTRIES_MAX = 50;
const COUNTRIES_MAX = 250;
const LANGUAGES_MAX = 20;
const RETURNS_MAX = 1_000;
const REVIEW_DAYS_MAX = 365;

const listOf = <T extends z.ZodType>(item: T, max: number) =>
  z.array(item).max(max, `must hold at most ${max}`);
/** A list whose order and repetitions mean nothing. */
const setOf = <T>(item: z.ZodType<T>, max: number) =>
  listOf(item, max).transform((values) => [...new Set(values)].sort(byValue));
const byValue = (one: unknown, other: unknown) => (isLess(one, other) ? -1 : 1);
// Texts, numbers and ids, each compared with its like.
const isLess = (one: unknown, other: unknown) => (one as bigint) < (other as bigint);

const normalText = requiredText(SHORT_TEXT_MAX).transform(normalForm);
const sku = normalText.refine((text) => text.split('*').length <= 2, 'must have at most one *');

const selector = z
  .object({
    productIds: setOf(id, SELECTED_MAX),
    skus: setOf(sku, SELECTED_MAX),
    tags: setOf(normalText, SELECTED_MAX),
  })
  .transform((items) => (hasItems(items) ? items : undefined));

function hasItems(items: { readonly [list: string]: readonly unknown[] }): boolean {
  return Object.values(items).some((list) => list.length > 0);
}

/** Without days, the start means nothing. */
const window = z
  .object({
    days: z
      .int()
      .refine((days) => days >= 0 && days <= DAYS_MAX, `must be from 0 to ${DAYS_MAX}`)
      .optional(),
    from: z.enum(Start, 'is unknown').transform((from) => from || Start.DELIVERED),
  })
  .transform(({ days, from }) => (days === undefined ? {} : { days, from }));

const isNamed = (value: number): boolean => value !== 0;
const outcome = z.enum(Outcome, 'is unknown');
const returnMethod = z.enum(ReturnMethod, 'is unknown');
const outcomes = setOf(outcome.refine(isNamed, 'is unknown'), ENTRIES_MAX);

const exception = z.object({
  items: z.custom<unknown>((items) => items !== undefined, 'is required').pipe(selector),
  window: window.optional(),
  outcomes,
});

const CODE = /^[a-z0-9_]{1,50}$/;
const code = z.string().regex(CODE, 'must be 1 to 50 of a to z, 0 to 9 and _');
const LANGUAGE = /^[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}$/;

const reason = z.object({
  code,
  parent: code.or(z.literal('')),
  label: z
    .record(z.string(), requiredText(SHORT_TEXT_MAX))
    .refine((label) => Object.keys(label).length > 0, 'is required')
    .refine(
      (label) => Object.keys(label).length <= LANGUAGES_MAX,
      `must have at most ${LANGUAGES_MAX} languages`,
    )
    .refine(
      (label) => Object.keys(label).every((language) => LANGUAGE.test(language)),
      'must have languages such as en as its keys',
    )
    .transform((label) =>
      Object.fromEntries(Object.entries(label).sort(([a], [b]) => byValue(a, b))),
    ),
  asksComment: z.boolean(),
  waivesFee: z.boolean(),
});

const reasons = listOf(reason, ENTRIES_MAX).superRefine((all, context) => {
  const seen = new Set<string>();
  for (const [n, { code: own, parent }] of all.entries()) {
    if (seen.has(own)) issueAt(context, [n, 'code'], 'is in the list twice');
    if (own === parent) issueAt(context, [n, 'parent'], 'must not be its own code');
    seen.add(own);
  }
});

function issueAt(context: z.RefinementCtx, path: (string | number)[], message: string): void {
  context.addIssue({ code: 'custom', message, path });
}

const PERCENTAGE = /^(0|[1-9]\d{0,2})(\.\d{1,2})?$/;
const isPercentage = (text: string) =>
  PERCENTAGE.test(text) && Number(text) > 0 && Number(text) <= 100;

const fee = z.object({
  returnMethod,
  outcome,
  // The currency of the shop is needed to parse an amount.
  fee: z
    .custom<PolicyFee['fee']>()
    .refine((one) => one?.case !== undefined, 'must be an amount or a percentage'),
});

const review = z
  .object({
    valueAbove: z.string(),
    reasons: setOf(requiredText(SHORT_TEXT_MAX), ENTRIES_MAX),
    returnsAbove: z.int().refine((n) => n >= 0 && n <= RETURNS_MAX, `must be 0 to ${RETURNS_MAX}`),
    returnsDays: z.int(),
    fraudReport: z.boolean(),
    missing: z.boolean(),
  })
  .superRefine(({ returnsAbove: above, returnsDays: days }, context) => {
    const [least, most] = above === 0 ? [0, 0] : [1, REVIEW_DAYS_MAX];
    if (days >= least && days <= most) return;
    const rule = above === 0 ? 'must be 0 without returns_above' : `must be 1 to ${most}`;
    issueAt(context, ['returnsDays'], rule);
  })
  .transform((all) => {
    const { valueAbove, reasons: codes, returnsAbove, fraudReport, missing } = all;
    const isEmpty = valueAbove === '' && codes.length === 0 && returnsAbove === 0;
    return isEmpty && !fraudReport && !missing ? undefined : all;
  });

const process = z
  .object({ moment: z.enum(Moment, 'is unknown'), upTo: z.string() })
  .transform((all) => (all.moment <= Moment.MANUAL ? undefined : all));

const policyInput = z.object({
  window: window.transform((all) => ('days' in all ? all : undefined)).optional(),
  finalSale: selector.optional(),
  exceptions: listOf(exception, ENTRIES_MAX),
  countries: setOf(
    z
      .string()
      .transform((country) => country.toUpperCase())
      .refine((country) => countryName(country) !== '', 'must be an ISO 3166 code, such as GB'),
    COUNTRIES_MAX,
  ),
  outcomes,
  returnMethods: setOf(returnMethod.refine(isNamed, 'is unknown'), ENTRIES_MAX),
  reasons,
  fees: listOf(fee, ENTRIES_MAX),
  review: review.optional(),
  process: process.optional(),
  refundBasis: z
    .enum(RefundBasis, 'is unknown')
    .transform((basis) => (basis === RefundBasis.ANNOUNCED ? RefundBasis.UNSPECIFIED : basis)),
  withdrawals: z
    .enum(WithdrawalHandling, 'is unknown')
    .transform((handling) =>
      handling === WithdrawalHandling.MANUAL ? WithdrawalHandling.UNSPECIFIED : handling,
    ),
});
type Checked = z.output<typeof policyInput>;

const request = z.object({
  policy: z.custom<unknown>((policy) => policy !== undefined, 'is required').pipe(policyInput),
});

/**
 * Returns a policy in its canonical form. Lists without an order are sorted, amounts have all decimals of the currency,
 * and parts that allow everything or do nothing are absent.
 *
 * @param currency the shop's.
 * @throws DomainError INVALID_ARGUMENT with the path of the first invalid field, such as `policy.fees[0].amount`.
 */
export function canonical(policy: Policy | undefined, currency: string): Policy {
  const { policy: checked } = parseInput(request, { policy });
  requireItems(checked);
  requireKnownReasons(checked);
  const made = create(PolicySchema, withAmounts(checked, currency));
  if (Buffer.byteLength(toJsonString(PolicySchema, made)) > POLICY_BYTES_MAX) {
    throw invalidField('policy', `must be at most ${POLICY_BYTES_MAX / 1024} KiB as JSON`);
  }
  return made;
}

function requireItems({ exceptions }: Checked): void {
  const empty = exceptions.findIndex(({ items }) => items === undefined);
  if (empty >= 0) throw invalidField(`policy.exceptions[${empty}].items`, 'must select items');
}

/** A condition for a reason that nobody can choose is a mistake. */
function requireKnownReasons({ reasons: known, review: conditions }: Checked): void {
  if (!conditions || known.length === 0) return;
  const codes = new Set(known.map((one) => one.code));
  if (conditions.reasons.every((one) => codes.has(one))) return;
  throw invalidField('policy.review.reasons', 'must be codes of the reasons of the policy');
}

/** @throws DomainError INVALID_ARGUMENT */
function percentage(n: number, text: string): string {
  if (isPercentage(text)) return String(Number(text));
  const rule = 'must be above 0 and at most 100, with at most two decimals';
  throw invalidField(`policy.fees[${n}].percentage`, rule);
}

function withAmounts(checked: Checked, currency: string) {
  const amount = (field: string, text: string) =>
    formatAmount(parseAmount(`policy.${field}`, text, currency), currency);
  const optional = (field: string, text: string) => (text === '' ? '' : amount(field, text));
  const { review: conditions, process: automatic, fees } = checked;
  return {
    ...checked,
    fees: fees.map(({ fee: stated, ...one }, n) => ({
      ...one,
      fee:
        stated.case === 'amount'
          ? { case: stated.case, value: amount(`fees[${n}].amount`, stated.value) }
          : { case: 'percentage' as const, value: percentage(n, stated.value ?? '') },
    })),
    ...(conditions && {
      review: {
        ...conditions,
        valueAbove: optional('review.value_above', conditions.valueAbove),
      },
    }),
    ...(automatic && {
      process: { ...automatic, upTo: optional('process.up_to', automatic.upTo) },
    }),
  };
}
