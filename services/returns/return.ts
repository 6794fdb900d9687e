import { type Return as Details, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { outcomesFulfilled, paidForGood, stateForbids } from './refusals.ts';

const { OPEN, REVIEW, CLOSED, CANCELLED, EXPIRED } = ReturnState;

/** Every transition: the states from which it is allowed, and its new state. Closed and cancelled are final. */
export const TRANSITIONS = {
  flag: { from: [OPEN], to: REVIEW },
  unflag: { from: [REVIEW], to: OPEN },
  close: { from: [OPEN], to: CLOSED },
  cancel: { from: [OPEN, REVIEW], to: CANCELLED },
  expire: { from: [OPEN, REVIEW], to: EXPIRED },
  reopen: { from: [EXPIRED], to: OPEN },
  reopenInReview: { from: [EXPIRED], to: REVIEW },
} as const satisfies Record<string, { from: readonly ReturnState[]; to: ReturnState }>;
export type Transition = keyof typeof TRANSITIONS;

/** The fields of a return that decide whether a transition is allowed. */
type Facts = Pick<Details, 'id' | 'state' | 'flagReasons' | 'processing'>;

/** The result of a transition; the store writes it. */
export interface StateChange {
  readonly returnId: bigint;
  readonly state: ReturnState;
  readonly flagReasons: readonly string[];
}

/** What was done already, or may have been, although the state does not show it. Read it under the return's lock. */
export interface Commitments {
  /** A failed run of processing fulfilled an outcome, or asked for one without an answer. */
  readonly mayHaveFulfilled: boolean;
  /** An instant refund was paid, and the shopper keeps it. */
  readonly paidForGood: boolean;
}

/** Whether a return is open or in review. */
export function isLive(state: ReturnState): boolean {
  return state === OPEN || state === REVIEW;
}

const NAMES: Readonly<Record<ReturnState, string>> = {
  [ReturnState.UNSPECIFIED]: 'unspecified',
  [OPEN]: 'open',
  [REVIEW]: 'in review',
  [CLOSED]: 'closed',
  [CANCELLED]: 'cancelled',
  [EXPIRED]: 'expired',
};

/**
 * The rules of a return's state. Each method decides whether its transition is allowed, and answers the result. It
 * writes nothing to the database.
 */
export class Return {
  readonly #details: Facts;

  constructor(details: Facts) {
    this.#details = details;
  }

  /** @throws DomainError STATE_FORBIDS when it is not open, or queued for processing. */
  flag(reasons: readonly string[]): StateChange {
    return this.#enter('flag', reasons);
  }

  /** @throws DomainError STATE_FORBIDS when it is not in review. */
  unflag(): StateChange {
    return this.#enter('unflag');
  }

  /**
   * @throws DomainError STATE_FORBIDS when it is neither open nor in review, is queued for processing, or has
   *   commitments that a cancellation cannot undo.
   */
  cancel(commitments: Commitments): StateChange {
    const change = this.#enter('cancel');
    if (commitments.mayHaveFulfilled) throw outcomesFulfilled();
    if (commitments.paidForGood) throw paidForGood();
    return change;
  }

  /** The flag reasons stay: if the return opens again, it is in review again. */
  expire(): StateChange {
    return this.#enter('expire', this.#details.flagReasons);
  }

  /** Opens an expired return again, in review if it was there when it expired. */
  reopen(): StateChange {
    const { flagReasons } = this.#details;
    return this.#enter(flagReasons.length > 0 ? 'reopenInReview' : 'reopen', flagReasons);
  }

  /** Ends processing, so the return may still be marked as queued. @throws DomainError STATE_FORBIDS */
  close(): StateChange {
    this.#requireFrom('close');
    return this.#changed('close', []);
  }

  /** @throws DomainError STATE_FORBIDS when it is neither open nor in review, or queued for processing. */
  requireEditable(): void {
    if (!isLive(this.#details.state)) this.#refuse();
    this.#requireNotQueued();
  }

  #enter(transition: Transition, flagReasons: readonly string[] = []): StateChange {
    this.#requireFrom(transition);
    this.#requireNotQueued();
    return this.#changed(transition, flagReasons);
  }

  #changed(transition: Transition, flagReasons: readonly string[]): StateChange {
    return { returnId: this.#details.id, state: TRANSITIONS[transition].to, flagReasons };
  }

  #requireFrom(transition: Transition): void {
    const { from }: { readonly from: readonly ReturnState[] } = TRANSITIONS[transition];
    if (!from.includes(this.#details.state)) this.#refuse();
  }

  #requireNotQueued(): void {
    if (this.#details.processing) throw stateForbids('the return is queued for processing');
  }

  #refuse(): never {
    throw stateForbids(`the return is ${NAMES[this.#details.state]}`);
  }
}
