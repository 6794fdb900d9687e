import type { SendResult } from '../../sender/send-result.ts';
import type { Due } from '../queue/read-due.ts';

/** The result of one attempt, before it is recorded. */
export interface AttemptResult {
  readonly due: Due;
  /** Token of the lease of the shard, at the start of the attempt. */
  readonly token: bigint;
  /**
   * Undefined when no request was sent. The delivery is then rescheduled, or dropped because its payload was deleted.
   */
  readonly sent: { readonly result: SendResult; readonly headers: string } | undefined;
  /** How the delivery ended; null when it has another attempt after `pauseMs`. */
  readonly ended: 'delivered' | 'exhausted' | 'dropped' | null;
  readonly pauseMs: number;
}
