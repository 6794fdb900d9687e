import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import type { Transport } from '@connectrpc/connect';
// biome-ignore lint/style/noRestrictedImports: this is the hook.
import { useTransport } from '@connectrpc/connect-query';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { closeNotice, notifyDone, notifyFailure, notifySent } from '../parts/notify.ts';
import { isBeforeMethod, isUnanswered, NoAnswer, wasSent } from './errors.ts';

/** The fields of a write. The key is made here, so that a repeat of a write without an answer has the same one. */
type Input<I extends DescMessage> = MessageInitShape<I> & { readonly idempotencyKey?: never };

/** A write that the page makes. */
export interface Write<I extends DescMessage> {
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
  /** Called before the page is read again, which is a part of the write: a button waits until it shows the change. */
  readonly onAnswer?: () => void;
}

/** A write without an answer for so long is shown, also when no dialog shows it. Milliseconds. */
const NOTICE_MS = 1_000;
/** How long the key of a write without an answer is kept. A later write is another action. Milliseconds. */
const KEPT_MS = 10 * 60_000;

/** The keys of writes that have no answer yet, by method and object. */
const keys = new Map<string, { readonly key: string; readonly sentAt: number }>();
let inFlight = 0;

const IDLE = { isPending: false, error: undefined };

/** Asks before the page is closed while a write has no answer. */
export function warnBeforeLeaving(event: BeforeUnloadEvent): void {
  if (inFlight > 0) event.preventDefault();
}

/** What a write changes: the same action on the same object has the same text. */
function targetOf<I extends DescMessage>(method: DescMethodUnary<I>, input: object): string {
  const ids = Object.entries(input).filter(([field]) => /Id$|^version$/.test(field));
  return JSON.stringify([method.parent.typeName, method.name, ids.toSorted()]);
}

/**
 * The only way from the page to a method that writes. Sends at once or fails at once: nothing is sent later or again by
 * itself. Until the service answers, the same action on the same object has the same idempotency key, also from a dialog
 * that was opened again. So a repeat has no second effect, and one with other content is rejected.
 *
 * @param o.hasDialog a dialog shows that there is no answer yet. Otherwise a message does.
 * @throws NoAnswer when it is not known whether the write was carried out; otherwise the error of the service.
 */
export async function sendWrite<I extends DescMessage, O extends DescMessage>(
  transport: Transport,
  method: DescMethodUnary<I, O>,
  { input, hasDialog }: { readonly input: Input<I>; readonly hasDialog: boolean },
): Promise<MessageShape<O>> {
  const target = targetOf(method, input);
  const earlier = keys.get(target);
  const isKept = earlier !== undefined && Date.now() - earlier.sentAt < KEPT_MS;
  const key = isKept ? earlier.key : crypto.randomUUID();
  const wasOffline = !navigator.onLine;
  const request = create(method.input, input);
  if (method.input.field.idempotencyKey) {
    keys.set(target, { key, sentAt: Date.now() });
    Object.assign(request, { idempotencyKey: key });
  }
  const forget = () => keys.get(target)?.key === key && keys.delete(target);
  let notice = 0;
  const timer = hasDialog ? undefined : setTimeout(() => (notice = notifySent()), NOTICE_MS);
  inFlight += 1;
  try {
    const { message } = await transport.unary(method, undefined, undefined, undefined, request);
    forget();
    return message;
  } catch (error) {
    if (!isUnanswered(error)) {
      if (!isBeforeMethod(error)) forget();
      throw error;
    }
    throw new NoAnswer(method, wasOffline && !navigator.onLine);
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
  const transport = useTransport();
  const isShown = useIsShown();
  const [state, setState] = useState<Pick<Write<I>, 'isPending' | 'error'>>(IDLE);
  const isSending = useRef(false);
  const last = useRef<Sending<I>>(undefined);
  // The click that sends a write may also set the state that `done` and `onSuccess` read after the answer.
  const newest = useRef(o);
  useEffect(() => {
    newest.current = o;
  });
  // The form that made the change may be closed by then, so this uses nothing of it.
  const undo = async (former: Input<I>) => {
    await sendWrite(transport, method, { input: former, hasDialog: true });
    notifyDone('It is as it was before.');
    void cache.invalidateQueries();
  };
  // Not a mutation of the query library, which by default holds writes back while the browser is offline.
  const write = async ({ input, former, hasDialog, onAnswer }: Sending<I>) => {
    setState({ isPending: true, error: undefined });
    try {
      const response = await sendWrite(transport, method, { input, hasDialog });
      onAnswer?.();
      const { done, onSuccess } = newest.current;
      if (done !== undefined) notifyDone(done, former && (() => undo(former)));
      if (isShown.current) onSuccess?.(response);
      await cache.invalidateQueries();
      setState(IDLE);
    } catch (failure) {
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
    write(sending)
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
