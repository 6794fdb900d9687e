import type { About } from './about.ts';

/** How an endpoint of the sink answers. */
export type Behaviour =
  | { readonly kind: 'accept'; readonly delayMs?: number }
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: string }
  /** Never answers, until it gets another behaviour. Then waiting requests are accepted. */
  | { readonly kind: 'hang' }
  | { readonly kind: Nasty };

/** Answers that no receiver should give. */
export type Nasty = 'drip' | 'endless' | 'huge-header' | 'gzip-bomb' | 'reset';

export const NASTY = ['drip', 'endless', 'huge-header', 'gzip-bomb', 'reset'] as const;

/** One request, as it came in. Times in milliseconds since the epoch. */
export interface Arrival {
  /** Counts all requests of this sink. */
  readonly number: number;
  readonly path: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly trigger: string;
  readonly sequence: number;
  readonly at: number;
  /** Near end of the connection, seen from the sender: its port. */
  readonly fromPort: number;
  /** The error of standardwebhooks about the signature; empty for a valid one. */
  readonly fault: string;
  /** Whether the answer is to be a success. */
  readonly accepted: boolean;
  /** Of the body. */
  readonly sha256: string;
  readonly about: About | null;
}

/** The end of a request: answered in full, or cut off. */
export interface Ending {
  readonly number: number;
  readonly at: number;
  readonly answered: boolean;
}

export type ToSink =
  | { readonly kind: 'secret'; readonly path: string; readonly secret: string }
  | { readonly kind: 'behave'; readonly paths: readonly string[]; readonly behaviour: Behaviour }
  /** Signatures only: whether the timestamp is recent is left out. */
  | { readonly kind: 'ignore-time'; readonly ignore: boolean }
  /** Stops or starts listening. */
  | { readonly kind: 'listen'; readonly listen: boolean }
  /** Answered by `flushed` after everything that came before. */
  | { readonly kind: 'flush'; readonly call: number };

export type FromSink =
  | { readonly kind: 'ready'; readonly port: number }
  | { readonly kind: 'seen'; readonly arrivals: Arrival[]; readonly endings: Ending[] }
  | { readonly kind: 'flushed'; readonly call: number };
