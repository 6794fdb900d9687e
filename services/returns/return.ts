import { type Return as Details, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { type DomainError, stateForbids } from '../platform/values/errors.ts';

const { OPEN, REVIEW, CLOSED, CANCELLED, EXPIRED } = ReturnState;

/** All transitions: the states from which each is allowed, and the state after it. Closed and cancelled are final. */
export const TRANSITIONS = {
  flag: { from: [OPEN], to: REVIEW },
  unflag: { from: [REVIEW], to: OPEN },
  close: { from: [OPEN], to: CLOSED },
  cancel: { from: [OPEN, REVIEW], to: CANCELLED },
  expire: { from: [OPEN, REVIEW], to: EXPIRED },
  reopen: { from: [EXPIRED], to: OPEN },
  reopenInReview: { from: [EXPIRED], to: REVIEW },
} as const satisfies Record<string, { from: readonly ReturnState[]; to: ReturnState }>;
type Transition = keyof typeof TRANSITIONS;

/** The fields that decide whether a transition is allowed. */
type DecidingFields = Pick<Details, 'id' | 'state' | 'flagReasons' | 'processing'>;

/** The result of a transition. The store writes it to the database. */
export interface StateChange {
  readonly returnId: bigint;
  readonly state: ReturnState;
  readonly flagReasons: readonly string[];
}

/**
 * What runs of processing have made of what they requested of the commerce provider. `none`: nothing. `made`:
 * something. `unknown`: for something there is no known answer, so that it may have been made.
 */
export type Fulfilment = 'none' | 'made' | 'unknown';

/** Payments of a return that its state does not show. They must be read under the row lock of the return. */
interface Commitments {
  readonly fulfilment: Fulfilment;
  /** Whether the shopper keeps an instant refund. */
  readonly instantRefundKept: boolean;
}

/** Whether a return is open or in review. */
export function isOpenOrInReview(state: ReturnState): boolean {
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
 * The rules for the state of a return. Each method decides whether a transition or an edit is allowed. No method writes
 * to the database.
 */
export class Return {
  readonly #details: DecidingFields;

  constructor(details: DecidingFields) {
    this.#details = details;
  }

  /** @throws DomainError STATE_FORBIDS when the return is not open, or is queued for processing. */
  flag(reasons: readonly string[]): StateChange {
    return this.#enter('flag', reasons);
  }

  /** @throws DomainError STATE_FORBIDS when the return is not in review. */
  unflag(): StateChange {
    return this.#enter('unflag');
  }

  /**
   * @throws DomainError STATE_FORBIDS when the return is neither open nor in review, is queued for processing, or has
   *   commitments, which a cancellation cannot undo.
   */
  cancel(commitments: Commitments): StateChange {
    const change = this.#enter('cancel');
    requireUncommitted(commitments, { freesLines: true });
    return change;
  }

  /**
   * Cancels a return whose exchange order was cancelled. Allowed while the return is queued, because a job of
   * processing calls it.
   *
   * @throws DomainError STATE_FORBIDS
   */
  cancelAfterOrder(): StateChange {
    this.#requireFrom('cancel');
    return this.#changed('cancel', []);
  }

  /** Expires the return. Keeps the flag reasons, so that a return that opens again is in review again. */
  expire(): StateChange {
    return this.#enter('expire', this.#details.flagReasons);
  }

  /** Opens an expired return again. It is in review when it was in review before it expired. */
  reopen(): StateChange {
    const { flagReasons } = this.#details;
    return this.#enter(flagReasons.length > 0 ? 'reopenInReview' : 'reopen', flagReasons);
  }

  /**
   * Closes the return. Allowed while it is queued, because a job of processing calls it. @throws DomainError
   * STATE_FORBIDS
   */
  close(): StateChange {
    this.#requireFrom('close');
    return this.#changed('close', []);
  }

  /**
   * Requires that the return may be edited. @throws DomainError STATE_FORBIDS when it is neither open nor in review, or
   * is queued for processing.
   */
  requireEditable(): void {
    if (!isOpenOrInReview(this.#details.state)) this.#reject();
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
    if (!from.includes(this.#details.state)) this.#reject();
  }

  #requireNotQueued(): void {
    if (this.#details.processing) throw stateForbids('the return is queued for processing');
  }

  #reject(): never {
    throw stateForbids(`the return is ${NAMES[this.#details.state]}`);
  }
}

/**
 * Checks payments before a cancellation, and before an edit of an {@link Return.requireEditable editable} return.
 *
 * @param o.freesLines whether line items become free for another return, which could refund them again.
 * @throws DomainError STATE_FORBIDS when an effect may have been made; with `freesLines` also when the shopper keeps an
 *   instant refund.
 */
export function requireUncommitted(
  commitments: Commitments,
  { freesLines }: { readonly freesLines: boolean },
): void {
  if (commitments.fulfilment !== 'none') throw effectsMade(commitments.fulfilment);
  if (freesLines && commitments.instantRefundKept) {
    throw stateForbids(
      'the shopper keeps an instant refund for this return; process the return to refund the remainder',
    );
  }
}

/**
 * The error for a return of which a failed run of processing has fulfilled a part, or may have. Only another run can
 * complete it. Only that run, or a person who looks into the provider's records, can say what was made.
 */
export function effectsMade(fulfilment: Exclude<Fulfilment, 'none'>): DomainError {
  return stateForbids(
    fulfilment === 'made'
      ? 'part of the return was already paid; process the return again to complete it'
      : `a request to the commerce provider has an unknown outcome. Process the return again; ${ASK_A_PERSON}`,
  );
}

/** The end of a text which says that an outcome is unknown, and what to try first. docs/runbook.md has the steps. */
export const ASK_A_PERSON =
  "if that does not find it, look at the provider's records, and have an operator record what they show (`commerce settle`)";

/** A return by its ids. */
export interface ReturnRef {
  readonly shopId: bigint;
  readonly returnId: bigint;
}
