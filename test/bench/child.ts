import { type NodeOptions, type NodeProcess, startNode } from '../kit/process.ts';
import type { Methods } from './ipc.ts';

/** A process that responds to calls, see `serveParent`. */
export interface Worker<M extends Methods> extends NodeProcess {
  call<K extends keyof M & string>(
    method: K,
    ...input: Parameters<M[K]>
  ): Promise<Awaited<ReturnType<M[K]>>>;
  onReceived(listener: (value: number) => void): void;
}

/** Starts a process of the bench itself. `M` is the type of its methods. */
export function startWorker<M extends Methods>(o: NodeOptions): Worker<M> {
  const running = startNode({ ...o, hasChannel: true });
  const { child } = running;
  const waiting = new Map<number, { resolve(value: never): void; reject(error: Error): void }>();
  const listeners: ((value: number) => void)[] = [];
  let last = 0;
  child.on(
    'message',
    (message: { id?: number; value?: never; error?: string; received?: number }) => {
      if (message.received !== undefined)
        for (const listener of listeners) listener(message.received);
      const call = waiting.get(message.id ?? 0);
      waiting.delete(message.id ?? 0);
      if (message.error !== undefined) call?.reject(new Error(`${running.name}: ${message.error}`));
      else call?.resolve(message.value as never);
    },
  );
  child.once('exit', () => {
    for (const { reject } of waiting.values()) {
      reject(new Error(`${running.name} ended:\n${running.output()}`));
    }
  });
  return {
    ...running,
    call(method, ...[input]) {
      last += 1;
      const id = last;
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject });
        child.send({ id, method, input });
      });
    },
    onReceived: (listener) => void listeners.push(listener),
  };
}
