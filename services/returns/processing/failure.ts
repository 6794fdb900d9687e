import {
  CommerceFailure,
  type Effect,
  type EffectKind,
  isFinal,
  isUnsent,
} from '../commerce/provider.ts';
import { ASK_A_PERSON } from '../return.ts';
import type { Job } from './jobs.ts';
import { NotProcessable, type Step } from './plan.ts';

// What the error of a run means: whether it is permanent, whether it had an effect, and what people read about it.

/** The name of each effect for people. */
export const EFFECT_WORDS: Readonly<Record<EffectKind, string>> = {
  exchange_order: 'exchange order',
  gift_card: 'gift card',
  refund: 'refund',
  restock: 'restock',
  order_cancel: 'cancellation',
};

/** The provider fulfilled a step with a different amount than requested. A user must check it. */
export class AmountMismatch extends Error {
  override readonly name = 'AmountMismatch';

  constructor(step: Step, result: Effect) {
    const made = `${result.amount} ${result.currency}`;
    const requested = `${step.amount} ${step.currency}`;
    super(`the ${EFFECT_WORDS[step.kind]} ${result.id} has ${made}, requested were ${requested}`);
  }
}

/** A step that the provider was requested to do, without a recorded result. */
export interface RequestedStep extends Step {
  /** Whether a search for the effect of an earlier request surely finds it. */
  readonly isSearchReliable: boolean;
}

/** Longer pauses are not granted: the limit of retries would end soon after them. Milliseconds. */
const MAX_REQUESTED_PAUSE_MS = 300_000;
/** An endpoint that asks for no pause gets a short one. Milliseconds. */
const MIN_REQUESTED_PAUSE_MS = 50;

/** The pause that the provider requested in its answer, or that the search needs; undefined without one. */
export function requestedPauseMs(error: unknown): number | undefined {
  const requested = error instanceof CommerceFailure ? error.retryAfterMs : undefined;
  if (requested === undefined) return undefined;
  return Math.min(Math.max(requested, MIN_REQUESTED_PAUSE_MS), MAX_REQUESTED_PAUSE_MS);
}

/**
 * Whether the step had no effect: its request was rejected, or surely not sent. After an earlier request without an
 * answer a rejection may mean the opposite: "the order was refunded already". Only our own ledger surely knows every
 * effect by its key.
 */
export function hadNoEffect(error: unknown, step: RequestedStep | undefined): boolean {
  if (!step) return false;
  const isFirst = step.requestedMsAgo === undefined;
  return isFinal(error) ? isFirst || step.isSearchReliable : isFirst && isUnsent(error);
}

/** Whether another run would fail for the same reason. */
export function isPermanent(error: unknown): boolean {
  return isFinal(error) || error instanceof NotProcessable || error instanceof AmountMismatch;
}

/**
 * A generic message. The log has the provider's own error.
 *
 * @param unknown the step whose request may have been fulfilled.
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
