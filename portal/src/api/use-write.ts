import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
// biome-ignore lint/style/noRestrictedImports: this is the hook.
import { useTransport } from '@connectrpc/connect-query';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { hasLeft } from '../api/network.ts';
import { closeNotice, notifyDone, notifyFailure, notifyOnce, notifySent } from '../parts/notify.ts';
import type { ShopTransport } from './client.ts';
import { isBeforeMethod, isUnanswered, NoAnswer, wasSent } from './errors.ts';
import { isOffline } from './network.ts';

/** The fields of a write. The key is made here, so that a repeat of a write without an answer has the same one. */
type Input<I extends DescMessage> = MessageInitShape<I> & { readonly idempotencyKey?: never };

/** A write that the page makes. */
interface Write<I extends DescMessage> {
  /**
   * Sends it, and shows a failure: in the form when `inline`, otherwise as a message. Does nothing while it is sent.
   *
   * @param back the same write with the values of before. After success the user can take the change back with it.
   */
  run(input: Input<I>, back?: Input<I>): void;
  /** Sends it for a dialog that stays until the answer and shows a failure itself. @throws why it failed. */
  send(input: Input<I>, back?: Input<I>): Promise<void>;
  readonly isPending: boolean;
  /** Why the last try failed. Undefined when it did not. */
  readonly error: unknown;
}

interface Sending<I extends DescMessage> {
  readonly input: Input<I>;
  readonly former: Input<I> | undefined;
  readonly hasDialog: boolean;
  readonly key?: string | undefined;
  /** Called before the page is read again, which is a part of the write: a button waits until it shows the change. */
  readonly onAnswer?: () => void;
}

/** A write without an answer for so long is shown, also when no dialog shows it. Milliseconds. */
const NOTICE_MS = 1_000;
/** How long a write without an answer is kept. A later write is another action. Milliseconds. */
const KEPT_MS = 10 * 60_000;

/** A write that has no answer yet. It is kept for the tab, so that a repeat after a reload or a sign-in has its key. */
interface Unanswered {
  readonly key: string;
  readonly keptAt: number;
  /** False when it did not leave the browser. */
  readonly isSent: boolean;
}

let inFlight = 0;

const IDLE = { isPending: false, error: undefined };

/** Asks before the page is closed while a write has no answer. A user who signs out or switches the shop has decided. */
export function warnBeforeLeaving(event: BeforeUnloadEvent): void {
  if (inFlight > 0 && !hasLeft()) event.preventDefault();
}

/** What a write changes: the same action of the same user on the same object has the same text. */
function targetOf<I extends DescMessage>(
  { shopId, userId }: ShopTransport,
  method: DescMethodUnary<I>,
  input: object,
): string {
  const ids = Object.entries(input)
    .filter(([field]) => /Id$|^version$/.test(field))
    .map(([field, value]) => [field, String(value)]);
  return JSON.stringify([
    'unanswered',
    shopId,
    userId,
    method.parent.typeName,
    method.name,
    ids.toSorted(),
  ]);
}

function unansweredOf(target: string): Unanswered | undefined {
  const kept = JSON.parse(sessionStorage.getItem(target) ?? 'null') as Unanswered | null;
  return kept && Math.abs(Date.now() - kept.keptAt) < KEPT_MS ? kept : undefined;
}

function keepUnanswered(target: string, of: Pick<Unanswered, 'key' | 'isSent'>): void {
  sessionStorage.setItem(target, JSON.stringify({ ...of, keptAt: Date.now() }));
}

/** Methods whose repeat finds nothing when the first try was carried out. */
const REMOVES = /^(?:Delete|Remove|EndSession)/;

/**
 * The only way from the page to a method that writes. Sends at once or fails at once: nothing is sent later or again by
 * itself. Until the service answers, the same action on the same object has the same idempotency key, also from a dialog
 * that was opened again. So a repeat has no second effect, and one with other content is rejected.
 *
 * @param o.hasDialog a dialog shows that there is no answer yet. Otherwise a message does.
 * @param o.key the key of an earlier try of the same dialog.
 * @returns the response, and whether it may be that of an earlier try which the user does not know to be the same action.
 * @throws NoAnswer when it is not known whether the write was carried out; otherwise the error of the service.
 */
export async function sendWrite<I extends DescMessage, O extends DescMessage>(
  transport: ShopTransport,
  method: DescMethodUnary<I, O>,
  o: {
    readonly input: Input<I>;
    readonly hasDialog: boolean;
    readonly key?: string | undefined;
  },
): Promise<{ readonly message: MessageShape<O>; readonly isOnce: boolean }> {
  const target = targetOf(transport, method, o.input);
  const earlier = unansweredOf(target);
  const wasTried = earlier?.isSent ?? false;
  const key = o.key ?? earlier?.key ?? crypto.randomUUID();
  const wasOffline = isOffline();
  const request = create(method.input, o.input);
  const hasKey = method.input.field.idempotencyKey !== undefined;
  if (hasKey) Object.assign(request, { idempotencyKey: key });
  keepUnanswered(target, { key, isSent: true });
  const forget = () => unansweredOf(target)?.key === key && sessionStorage.removeItem(target);
  let notice = 0;
  const timer = o.hasDialog ? undefined : setTimeout(() => (notice = notifySent()), NOTICE_MS);
  inFlight += 1;
  try {
    const { message } = await transport.unary(method, undefined, undefined, undefined, request);
    forget();
    return { message, isOnce: hasKey && wasTried && o.key === undefined };
  } catch (error) {
    if (isUnanswered(error)) {
      const notSent = wasOffline && isOffline();
      keepUnanswered(target, { key, isSent: wasTried || !notSent });
      throw new NoAnswer(method, { notSent, key, cause: error });
    }
    if (!wasTried || !isBeforeMethod(error)) forget();
    const isGone = ConnectError.from(error).code === Code.NotFound && REMOVES.test(method.name);
    if (wasTried && isGone) return { message: create(method.output), isOnce: false };
    throw error;
  } finally {
    inFlight -= 1;
    clearTimeout(timer);
    closeNotice(notice);
  }
}

/**
 * A write. After an answer, and when there was none, everything on the page is read again.
 *
 * @param o.done what to say after success.
 * @param o.inline the form shows the error, so that it is not shown as a message.
 * @param o.onSuccess called when the component is still there. Otherwise the user has gone on to something else.
 */
export function useWrite<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  o: {
    readonly done?: string;
    readonly inline?: boolean;
    readonly onSuccess?: (response: MessageShape<O>) => void;
  },
): Write<I> {
  const cache = useQueryClient();
  const transport: ShopTransport = useTransport();
  const isShown = useIsShown();
  const [state, setState] = useState<Pick<Write<I>, 'isPending' | 'error'>>(IDLE);
  const isSending = useRef(false);
  const last = useRef<Sending<I>>(undefined);
  // Of the tries of this dialog that have no answer.
  const key = useRef<string>(undefined);
  // The click that sends a write may also set the state that `done` and `onSuccess` read after the answer.
  const newest = useRef(o);
  useEffect(() => {
    newest.current = o;
  });
  // The form that made the change may be closed by then, so this uses nothing of it.
  const undo = async (former: Input<I>) => {
    const sent = sendWrite(transport, method, { input: former, hasDialog: true });
    await sent.finally(() => void cache.invalidateQueries());
    notifyDone('It is as it was before.');
  };
  // Not a mutation of the query library, which by default holds writes back while the browser is offline.
  const write = async (sending: Sending<I>) => {
    const { former, hasDialog, onAnswer } = sending;
    setState({ isPending: true, error: undefined });
    try {
      const { message, isOnce } = await sendWrite(transport, method, sending);
      key.current = undefined;
      onAnswer?.();
      const { done, onSuccess } = newest.current;
      if (isOnce && !former) notifyOnce();
      else if (done !== undefined) notifyDone(done, former && (() => undo(former)));
      if (isShown.current) onSuccess?.(message);
      const isRead = cache.invalidateQueries();
      // A form shows the answer. It does not wait for the page.
      if (!hasDialog || onAnswer) await isRead;
      setState(IDLE);
    } catch (failure) {
      if (failure instanceof NoAnswer) key.current = failure.key;
      else if (!isBeforeMethod(failure)) key.current = undefined;
      setState({ isPending: false, error: failure });
      void cache.invalidateQueries();
      throw failure;
    }
  };
  const send: Write<I>['send'] = (input, former) =>
    new Promise((resolve, reject) => {
      write({ input, former, hasDialog: true, onAnswer: resolve }).catch(reject);
    });
  const run: Write<I>['run'] = (input, former) => {
    if (isSending.current) return;
    isSending.current = true;
    const hasDialog = o.inline ?? false;
    // The form shows what was sent, and what it was made from may have changed since then.
    const isRepeat = hasDialog && wasSent(state.error);
    const sending = (isRepeat && last.current) || { input, former, hasDialog };
    last.current = sending;
    write({ ...sending, key: hasDialog ? key.current : undefined })
      .catch((failure: unknown) => {
        if (!hasDialog || !isShown.current) notifyFailure(failure);
      })
      .finally(() => {
        isSending.current = false;
      });
  };
  return { run, send, ...state };
}

/** Whether the component is on the page. */
function useIsShown(): { readonly current: boolean } {
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return isShown;
}
