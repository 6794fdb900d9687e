import {
  CommerceFailure,
  type Effect,
  type EffectKind,
  type Funding,
  isDue,
  isFinal,
  isUnsent,
} from '../../commerce/provider.ts';
import { ASK_A_PERSON } from '../return.ts';
import type { Job } from './jobs.ts';
import { NotProcessable, type Step } from './plan.ts';

// What the error of a run means: whether it is permanent, whether the request had an effect, and the text that people
// read.

/** The name of each effect in texts for people. */
export const EFFECT_WORDS: Readonly<Record<EffectKind, string>> = {
  exchange_order: 'exchange order',
  gift_card: 'gift card',
  refund: 'refund',
  restock: 'restock',
  order_cancel: 'cancellation',
};

/** The provider made an effect with another amount than requested. A user must check it. */
export class AmountMismatch extends Error {
  override readonly name = 'AmountMismatch';

  constructor(step: Step, result: Effect, funding: Funding | undefined) {
    const isOfOrder = step.kind === 'exchange_order' && isDue(funding);
    const made = `${result.amount} ${result.currency}${isOfOrder ? `, of which ${result.due ?? 'nothing'} is due` : ''}`;
    const requested = `${step.amount} ${step.currency}${isOfOrder ? `, of which ${funding.due} is due` : ''}`;
    super(`the ${EFFECT_WORDS[step.kind]} ${result.id} has ${made}, requested were ${requested}`);
  }
}

/** A step that was requested of the provider and has no recorded result. */
export interface RequestedStep extends Step {
  /** Whether a search certainly finds the effect of an earlier request. */
  readonly isSearchReliable: boolean;
}

/**
 * Maximum pause that the provider may request. A longer pause would use up the time limit of the retries. Milliseconds.
 */
const MAX_REQUESTED_PAUSE_MS = 300_000;
/** Minimum pause, because an endpoint may request a pause of 0. Milliseconds. */
const MIN_REQUESTED_PAUSE_MS = 50;

/**
 * Returns the pause that the provider requested in its answer, or that a search needs; undefined when there is none.
 */
export function requestedPauseMs(error: unknown): number | undefined {
  const requested = error instanceof CommerceFailure ? error.retryAfterMs : undefined;
  if (requested === undefined) return undefined;
  return Math.min(Math.max(requested, MIN_REQUESTED_PAUSE_MS), MAX_REQUESTED_PAUSE_MS);
}

/**
 * Whether a step certainly had no effect, because its request was rejected or not sent. When an earlier request had no
 * answer, a rejection may mean the opposite, such as "the order was refunded already". Then only our own ledger
 * certainly knows whether the key had an effect.
 */
export function hadNoEffect(error: unknown, step: RequestedStep | undefined): boolean {
  if (!step) return false;
  const isFirst = step.askedAt === undefined;
  return isFinal(error) ? isFirst || step.isSearchReliable : isFirst && isUnsent(error);
}

/** What the provider did wrong, or why it rejected the request; undefined for other failures. */
export function reasonOf(error: unknown): string | undefined {
  const isOfProvider =
    (isFinal(error) || error instanceof AmountMismatch) && error instanceof Error;
  return isOfProvider ? error.message : undefined;
}

/** Whether another run would fail for the same reason. */
export function isPermanent(error: unknown): boolean {
  return isFinal(error) || error instanceof NotProcessable || error instanceof AmountMismatch;
}

/**
 * Returns a general text about the failure. {@link reasonOf} has the provider's own words.
 *
 * @param unknown the step whose request may have had an effect.
 */
export function messageOf(
  error: unknown,
  { isCancellation }: Job,
  unknown: Step | undefined,
): string {
  const [what, again] = isCancellation
    ? ['The cancellation', 'cancel the return']
    : ['Processing', 'process the return'];
  if (error instanceof NotProcessable) return `${what} stopped: ${error.message}.`;
  if (error instanceof AmountMismatch) {
    return 'Processing stopped: the commerce provider used a different amount than requested. Look at its records, and have an operator record what they show (`commerce settle`).';
  }
  const where = error instanceof CommerceFailure ? ' at the commerce provider' : '';
  const text = `${what} failed${where}. Completed steps are kept; ${again} again to continue.`;
  if (!unknown) return text;
  return `${text} The ${EFFECT_WORDS[unknown.kind]} may have been made: the next run searches for it; ${ASK_A_PERSON}.`;
}
