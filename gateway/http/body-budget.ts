import type { ServerResponse } from 'node:http';
import type { Meter } from '@opentelemetry/api';
import { type HttpRefusal, tooManyBytes, unavailable } from '../errors.ts';

/** Bytes of request bodies that may be in memory at once. */
export interface BodyBudgetSizes {
  /** Of all requests of the process. */
  readonly process: number;
  /** Of one caller; at least the largest body of an operation. */
  readonly caller: number;
}

const MIB = 1024 * 1024;

/**
 * A body takes up to eight times its bytes while it is parsed, validated and encoded for a service. So
 * that it all fits into the 768 MiB of the manifest: see `docs/decisions.md`.
 */
export const BODY_BUDGET: BodyBudgetSizes = { process: 64 * MIB, caller: 32 * MIB };

/** Answers are held until the client has read them: two of the largest for a caller. */
export const ANSWER_BUDGET: BodyBudgetSizes = { process: 96 * MIB, caller: 56 * MIB };

/** A caller that holds no more than this may use the last quarter: large bodies cannot keep out small ones. */
const SMALL_BYTES = MIB;
const LARGE_PART = 0.75;

/** The bytes of one request's body. */
export interface HeldBytes {
  /**
   * Counts `total` bytes for this request, in place of what it held before, if that is less.
   *
   * @throws HttpRefusal 429 beyond the caller's budget, 503 beyond that of the process.
   */
  growTo(total: number): void;
  /** The request has ended: nothing is counted any more. May be called twice. */
  release(): void;
}

export interface BodyBudget {
  /**
   * @param caller whose budget it is: a key, an installation, a user, an address.
   * @param res an answer whose end releases the bytes; without it the caller of this does.
   */
  open(caller: string, res?: ServerResponse): HeldBytes;
}

/** Counts the bytes that are in memory. */
export function createBodyBudget(
  sizes: BodyBudgetSizes,
  o: {
    readonly of: 'bodies' | 'answers';
    readonly refused?: (whose: 'process' | 'caller') => void;
  },
): BodyBudget & { readonly heldBytes: () => number } {
  const byCaller = new Map<string, number>();
  let all = 0;

  const refusalOf = (caller: string, more: number): HttpRefusal | undefined => {
    const own = (byCaller.get(caller) ?? 0) + more;
    if (own > sizes.caller) {
      o.refused?.('caller');
      return tooManyBytes(o.of);
    }
    const most = own > SMALL_BYTES ? sizes.process * LARGE_PART : sizes.process;
    if (all + more <= most) return undefined;
    o.refused?.('process');
    return unavailable(new Error(`the ${o.of} in memory have used up their budget`));
  };
  const add = (caller: string, bytes: number): void => {
    all += bytes;
    const own = (byCaller.get(caller) ?? 0) + bytes;
    if (own > 0) byCaller.set(caller, own);
    else byCaller.delete(caller);
  };

  return {
    heldBytes: () => all,
    open(caller, res) {
      let held = 0;
      let isOver = false;
      const release = (): void => {
        add(caller, -held);
        held = 0;
        isOver = true;
      };
      // Nobody says so again when the client has left already.
      if (res?.closed) release();
      res?.once('close', release);
      return {
        growTo(total) {
          const more = total - held;
          if (isOver || more <= 0) return;
          const refusal = refusalOf(caller, more);
          if (refusal) throw refusal;
          add(caller, more);
          held = total;
        },
        release,
      };
    },
  };
}

/** Budgets of bodies and of answers that `/metrics` shows. */
export function measuredBudgets(
  meter: Meter,
  sizes: {
    readonly bodies?: Partial<BodyBudgetSizes> | undefined;
    readonly answers?: Partial<BodyBudgetSizes> | undefined;
  } = {},
): { readonly bodies: BodyBudget; readonly answers: BodyBudget } {
  const refusals = meter.createCounter('http.server.bodies.refused', {
    description: 'Requests refused because a budget of bytes in memory was used up',
  });
  const held = meter.createObservableGauge('http.server.body.bytes', {
    description: 'Bytes of request bodies, and of answers that wait to be read, in memory',
  });
  const measured = (of: 'bodies' | 'answers', most: BodyBudgetSizes): BodyBudget => {
    const budget = createBodyBudget(most, {
      of,
      refused: (whose) => refusals.add(1, { of, budget: whose }),
    });
    held.addCallback((result) => result.observe(budget.heldBytes(), { of }));
    return budget;
  };
  return {
    bodies: measured('bodies', { ...BODY_BUDGET, ...sizes.bodies }),
    answers: measured('answers', { ...ANSWER_BUDGET, ...sizes.answers }),
  };
}
