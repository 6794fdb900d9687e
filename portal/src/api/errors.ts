import type { DescMethod } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { isOffline } from './network.ts';

/** What a reader sees about a failed call: what happened, and what to do. */
interface Explanation {
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
  [Code.Unavailable]: 'The service is not available',
};

/** Errors whose cause is the service or the connection. */
const OURS: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.Canceled,
  Code.Unknown,
  Code.Internal,
  Code.DataLoss,
]);

const SESSION_ENDED: Explanation = {
  title: 'Your session has ended, or is at another shop',
  text: 'Sign in to this shop in another tab, then try again.',
};
const OLD_PAGE: Explanation = {
  title: 'This page is older than the service',
  text: 'Copy what you typed, then load the page again.',
};
/** An exception of a script, or a script that the release after the page removed. */
const PAGE_ERROR: Explanation = {
  title: 'This part of the page did not work',
  text: 'Load the page again. If it fails again, tell support what you did.',
};
const NO_NETWORK: Explanation = {
  title: 'No network',
  text: 'Connect your browser, and try again.',
};
const UNREACHED: Explanation = {
  title: 'The service did not answer',
  text: 'Nothing is lost. Check your connection, wait a moment and try again.',
};
const OUR_ERROR = 'Something went wrong on our side';

/** The services whose writes the page of a return makes. */
const OF_RETURNS = /^(?:Returns|Dispositions|Fraud)Service$/;

/** A write without an answer: nobody knows whether it was carried out. */
export class NoAnswer extends Error {
  /** Whether it did not leave the browser. */
  readonly notSent: boolean;
  /** What shows whether it was carried out. */
  readonly place: string;
  /** The id of the request that failed in the service; undefined when nothing came back. */
  readonly requestId: string | undefined;

  /** The idempotency key of the repeat. */
  readonly key: string;

  constructor(
    { parent }: DescMethod,
    o: { readonly notSent: boolean; readonly key: string; readonly cause: unknown },
  ) {
    super('no answer');
    this.notSent = o.notSent;
    this.key = o.key;
    this.place = OF_RETURNS.test(parent.name) ? 'the return' : 'this page';
    this.requestId = requestIdOf(ConnectError.from(o.cause));
  }
}

/** Each answer of the service has it. */
function requestIdOf({ code, metadata }: ConnectError): string | undefined {
  return code === Code.Unavailable ? undefined : (metadata.get('X-Request-Id') ?? undefined);
}

/** Whether a write was sent and has no answer, so that it may be carried out. */
export function wasSent(error: unknown): boolean {
  return error instanceof NoAnswer && !error.notSent;
}

/** Whether an error of a call leaves open whether the call was carried out. */
export function isUnanswered(error: unknown): boolean {
  return OURS.has(ConnectError.from(error).code) && !isBeforeMethod(error);
}

/** Codes with which a call is rejected before its method. */
const BEFORE_METHOD: ReadonlySet<Code> = new Set([
  Code.ResourceExhausted,
  Code.Unauthenticated,
  Code.Unimplemented,
]);

/** Whether a call may have been rejected before its method. Such an error says nothing of an earlier try. */
export function isBeforeMethod(error: unknown): boolean {
  const { code, metadata } = ConnectError.from(error);
  // Only what rejects calls before their methods says when to try again.
  return BEFORE_METHOD.has(code) || (code === Code.Unavailable && metadata.has('Retry-After'));
}

/** Turns an error of a call or of the page into a title and a text for the reader. */
export function explain(error: unknown): Explanation {
  if (error instanceof NoAnswer) return explainNoAnswer(error);
  if (!(error instanceof ConnectError)) return isOffline() ? NO_NETWORK : PAGE_ERROR;
  const { code, rawMessage, metadata } = error;
  if (code === Code.Unauthenticated) return SESSION_ENDED;
  if (code === Code.Unimplemented) return OLD_PAGE;
  if (OURS.has(code)) {
    const requestId = requestIdOf(error);
    if (requestId) return { title: OUR_ERROR, text: `Try again. ${quote(requestId)}` };
    if (!metadata.has('X-Request-Id')) return isOffline() ? NO_NETWORK : UNREACHED;
  }
  return { title: TITLES[code] ?? 'This did not work', text: sentence(rawMessage) };
}

function explainNoAnswer({ notSent, place, requestId }: NoAnswer): Explanation {
  if (notSent) {
    return {
      title: 'Not sent: no network',
      text: 'Your browser is offline. Nothing was changed, and nothing is sent later.',
    };
  }
  const text = `It may be done already. Look at ${place} before you try again. Within ten minutes, a repeat in this tab cannot do it twice.`;
  return requestId
    ? { title: OUR_ERROR, text: `${text} ${quote(requestId)}` }
    : { title: 'Sent, no answer yet', text };
}

function quote(requestId: string): string {
  return `If it fails again, quote the request id ${requestId} to support.`;
}

/** For one of several writes, whose object may be gone. @throws every other error. */
export function throwUnlessGone(error: unknown): void {
  if (ConnectError.from(error).code !== Code.NotFound) throw error;
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
  // Not of the portal's API, but of a proxy or the load shedding before it.
  const isBare = trimmed === '' || /^HTTP \d+$/.test(trimmed);
  if (isBare) return 'Try again, or ask an owner of your shop.';
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
