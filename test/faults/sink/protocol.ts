import type { About } from './about.ts';

/** How an endpoint of the sink responds. */
export type Behaviour =
  | { readonly kind: 'accept'; readonly delayMs?: number }
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: string }
  /** Never responds until its behaviour changes. Then waiting requests are accepted. */
  | { readonly kind: 'hang' }
  | { readonly kind: Nasty };

/** Invalid or harmful responses. */
export type Nasty = 'drip' | 'endless' | 'huge-header' | 'gzip-bomb' | 'reset';

export const NASTY = ['drip', 'endless', 'huge-header', 'gzip-bomb', 'reset'] as const;

/** A received request. Times are milliseconds since the epoch. */
export interface Arrival {
  /** Number of the request among all requests of this sink. */
  readonly number: number;
  readonly path: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly trigger: string;
  readonly sequence: number;
  readonly at: number;
  /** The sender's port of the connection. */
  readonly fromPort: number;
  /** The error of standardwebhooks about the signature. Empty for a valid one. */
  readonly fault: string;
  /** Whether the response is a success. */
  readonly accepted: boolean;
  /** Hash of the body. */
  readonly sha256: string;
  readonly about: About | null;
}

/** The end of a request: after the whole response, or by a closed connection. */
export interface Ending {
  readonly number: number;
  readonly at: number;
  readonly answered: boolean;
}

export type ToSink =
  | { readonly kind: 'secret'; readonly path: string; readonly secret: string }
  | { readonly kind: 'behave'; readonly paths: readonly string[]; readonly behaviour: Behaviour }
  /** Verifies signatures, but not whether the timestamp is recent. */
  | { readonly kind: 'ignore-time'; readonly ignore: boolean }
  /** Stops or starts listening. */
  | { readonly kind: 'listen'; readonly listen: boolean }
  /** The sink sends `flushed` after the reports of everything before it. */
  | { readonly kind: 'flush'; readonly call: number };

export type FromSink =
  | { readonly kind: 'ready'; readonly port: number }
  | { readonly kind: 'seen'; readonly arrivals: Arrival[]; readonly endings: Ending[] }
  | { readonly kind: 'flushed'; readonly call: number };
