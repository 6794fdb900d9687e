import type { DescMethod } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';

/** What a reader sees about a failed call: what happened, and what to do. */
export interface Explanation {
  readonly title: string;
  readonly text: string;
}

const TITLES: Partial<Readonly<Record<Code, string>>> = {
  [Code.InvalidArgument]: 'This value is not valid',
  [Code.NotFound]: 'This does not exist',
  [Code.AlreadyExists]: 'This exists already',
  [Code.PermissionDenied]: 'Your role does not allow this',
  [Code.FailedPrecondition]: 'This is not possible at the moment',
  [Code.ResourceExhausted]: 'A limit is reached',
  [Code.Aborted]: 'Somebody else changed this at the same time',
};

/** Errors whose cause is the service or the connection; their texts say nothing to a reader. */
const OURS: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.Canceled,
  Code.Unknown,
  Code.Internal,
  Code.DataLoss,
  Code.Unimplemented,
]);

/** A write without an answer: nobody knows whether it was carried out. */
export class NoAnswer extends Error {
  /** Whether it did not leave the browser. */
  readonly notSent: boolean;
  /** What shows whether it was carried out. */
  readonly place: string;

  constructor({ parent }: DescMethod, notSent: boolean) {
    super('no answer');
    this.notSent = notSent;
    this.place = parent.name === 'ReturnsService' ? 'the return' : 'this page';
  }
}

/** Whether a write was sent and has no answer, so that it may be carried out. */
export function wasSent(error: unknown): boolean {
  return error instanceof NoAnswer && !error.notSent;
}

/** Whether an error of a call leaves open whether the call was carried out. */
export function isUnanswered(error: unknown): boolean {
  return OURS.has(ConnectError.from(error).code);
}

/** Whether a call may have been rejected before its method. Such an error says nothing of an earlier try. */
export function isBeforeMethod(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return code === Code.ResourceExhausted || code === Code.Unauthenticated;
}

/** Turns an error of a call into a title and a text for the reader. */
export function explain(error: unknown): Explanation {
  if (error instanceof NoAnswer) return explainNoAnswer(error);
  const failure = ConnectError.from(error);
  if (isUnanswered(failure)) {
    return navigator.onLine
      ? {
          title: 'The service did not answer',
          text: 'Nothing is lost. Check your connection, wait a moment and try again.',
        }
      : { title: 'No network', text: 'Connect your browser, and try again.' };
  }
  const { code, rawMessage } = failure;
  return { title: TITLES[code] ?? 'This did not work', text: sentence(rawMessage) };
}

function explainNoAnswer({ notSent, place }: NoAnswer): Explanation {
  return notSent
    ? {
        title: 'Not sent: no network',
        text: 'Your browser is offline. Nothing was changed, and nothing is sent later.',
      }
    : {
        title: 'Sent, no answer yet',
        text: `It may be done already. Look at ${place} before you try again. A repeat cannot do it twice.`,
      };
}

/** Whether a repeat can have another result: not for what does not exist, and not for what the role may not do. */
export function mayRepeat(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return code !== Code.NotFound && code !== Code.PermissionDenied;
}

/** Whether the session has ended, so that the user must sign in again. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof ConnectError && error.code === Code.Unauthenticated;
}

/** Whether a repeat may succeed. */
export function isPassing(error: unknown): boolean {
  const { code } = ConnectError.from(error);
  return code === Code.Unavailable || code === Code.DeadlineExceeded;
}

function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return 'Try again, or ask an owner of your shop.';
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
