import type {
  ItemSelector,
  Policy,
  PolicyException,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  type Outcome,
  type ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { OrderFacts } from '../../commerce/provider.ts';
import { minorOf } from '../../platform/values/money.ts';
import { endOf, isOffered, selects } from './eligibility.ts';
import { hasCome, MISSING_GOODS, type Progress, reviewReasons } from './policy.ts';

// What a draft of a policy would have made of a stored return. No clock, no database.

/** A stored return, as far as a policy judges it. Amounts are in minor units of the shop's currency. */
export interface StoredReturn extends Progress {
  readonly state: ReturnState;
  readonly outcome: Outcome;
  readonly returnMethod: ReturnMethod;
  readonly createdAt: Date;
  /** What was known of the order; undefined when it was not looked up. */
  readonly facts: OrderFacts | undefined;
  /** Country of the order, or of the shopper's address; undefined when unknown. */
  readonly country: string | undefined;
  readonly goods: bigint;
  /** Refund and credit together. */
  readonly payable: bigint;
  readonly returnsOfShopper: number;
  readonly hasFraudReport: boolean;
  readonly lineItems: readonly (Progress['lineItems'][number] & StoredLine)[];
}

interface StoredLine {
  readonly sku: string;
  readonly productId: bigint | undefined;
  /** Undefined when they are not stored. */
  readonly tags: readonly string[] | undefined;
  readonly reason: string;
  readonly isMissing: boolean;
}

/** For each thing that a policy decides, what decides it, for people; undefined when it does not. */
export interface StoredVerdict {
  readonly refused: string | undefined;
  readonly reviewed: string | undefined;
  readonly processed: string | undefined;
  /** What the policy needs and the return does not have. */
  readonly notJudged: string | undefined;
}

/**
 * Judges a stored return by a draft. A return that is refused is not judged further. One of which something is not
 * stored is judged as if that allowed it.
 */
export function judgeStored(draft: Policy, of: StoredReturn, currency: string): StoredVerdict {
  const refused = refusalOf(draft, of);
  if (refused !== undefined) {
    return { refused, reviewed: undefined, processed: undefined, notJudged: undefined };
  }
  const reasons = reviewReasons(draft, {
    ...of,
    currency,
    reasons: of.lineItems.map((line) => line.reason),
  });
  const isMissing = of.lineItems.some((line) => line.isMissing);
  if (draft.review?.missing && isMissing) reasons.push(MISSING_GOODS);
  const reviewed = reasons.length > 0 ? reasons.join('; ') : undefined;
  const processed = reviewed === undefined ? processingOf(draft, of, currency) : undefined;
  return { refused, reviewed, processed, notJudged: unknownOf(draft, of) };
}

function refusalOf(draft: Policy, of: StoredReturn): string | undefined {
  const { outcome, returnMethod, country, lineItems, facts } = of;
  const { countries, returnMethods } = draft;
  if (country !== undefined && countries.length > 0 && !countries.includes(country)) {
    return `Returns from ${country} are not offered`;
  }
  if (returnMethods.length > 0 && !returnMethods.includes(returnMethod)) {
    return 'Its return method is not offered';
  }
  const codes = new Set(draft.reasons.map(({ code }) => code));
  for (const line of lineItems) {
    if (codes.size > 0 && line.reason !== '' && !codes.has(line.reason)) {
      return 'Its reason is not offered';
    }
    if (selects(draft.finalSale, line)) return `Final sale${line.sku && `: ${line.sku}`}`;
    const exception = exceptionOf(draft, line);
    const end = facts && endOf(exception?.window ?? draft.window, facts);
    if (end && end < of.createdAt) return 'The time to return it had ended';
    const own = exception?.outcomes ?? [];
    if (!isOffered(own.length > 0 ? own : draft.outcomes, outcome)) {
      return 'Its outcome is not offered';
    }
  }
  return undefined;
}

function exceptionOf(draft: Policy, line: StoredLine): PolicyException | undefined {
  return draft.exceptions.find(({ items }) => selects(items, line));
}

function processingOf(draft: Policy, of: StoredReturn, currency: string): string | undefined {
  const { process: rule } = draft;
  const isLive = of.state === ReturnState.OPEN || of.state === ReturnState.CLOSED;
  if (!rule || !isLive || !hasCome(rule.moment, of)) return undefined;
  if (rule.upTo !== '' && of.payable > minorOf(rule.upTo, currency)) return undefined;
  return 'Its moment has come';
}

function unknownOf(draft: Policy, of: StoredReturn): string | undefined {
  const { country, lineItems, facts } = of;
  if (facts) return undefined;
  const hasWindow = lineItems.some(
    (line) => (exceptionOf(draft, line)?.window ?? draft.window)?.days !== undefined,
  );
  if (hasWindow) return 'The times of its order are not stored';
  if (draft.countries.length > 0 && country === undefined) return 'Its country is not stored';
  const hasTags = (items: ItemSelector | undefined) => (items?.tags.length ?? 0) > 0;
  if (hasTags(draft.finalSale) || draft.exceptions.some(({ items }) => hasTags(items))) {
    return 'The tags of its products are not stored';
  }
  return undefined;
}
