import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';
import { callUnaryMethod, useMutation, useTransport } from '@connectrpc/connect-query';
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { notifyDone, notifyFailure } from '../parts/notify.ts';

/** A write that the page makes. */
export interface Write<I extends DescMessage> {
  /** @param back the same write with the values of before. After success the user can take the change back with it. */
  run(input: MessageInitShape<I>, back?: MessageInitShape<I>): void;
  readonly isPending: boolean;
  /** Why the last try failed. Undefined when it did not. */
  readonly error: unknown;
}

/**
 * A write. After success everything on the page is read again.
 *
 * @param o.done what to say after success.
 * @param o.inline the form shows the error, so that it is not shown as a message.
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
  const back = useRef<MessageInitShape<I>>(undefined);
  // The form that made the change may be closed by then, so this uses nothing of it.
  const undo = async (input: MessageInitShape<I>) => {
    try {
      await callUnaryMethod(transport, method, input);
      notifyDone('It is as it was before.');
      await cache.invalidateQueries();
    } catch (failure) {
      notifyFailure(failure);
    }
  };
  const { mutate, isPending, error } = useMutation(method, {
    onSuccess: async (response) => {
      const former = back.current;
      if (o.done !== undefined) notifyDone(o.done, former && (() => void undo(former)));
      o.onSuccess?.(response);
      await cache.invalidateQueries();
    },
    onError: (failure) => {
      if (!o.inline) notifyFailure(failure);
    },
  });
  const run: Write<I>['run'] = (input, former) => {
    back.current = former;
    mutate(input);
  };
  return { run, isPending, error: error ?? undefined };
}

/**
 * The idempotency key of one user action. It stays the same while the component is mounted, so a second click repeats the
 * same call.
 */
export function useActionKey(): string {
  const [key] = useState(newActionKey);
  return key;
}

/** A new idempotency key, for an action that starts now. */
export function newActionKey(): string {
  return crypto.randomUUID();
}
