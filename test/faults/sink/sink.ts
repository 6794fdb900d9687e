import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { ArrivalBook } from './arrival-book.ts';
import type { Behaviour, FromSink, ToSink } from './protocol.ts';

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url));
const FLUSH_MS = 60_000;

/** The receiving end of all webhooks, and what it has seen. */
export interface Sink {
  readonly book: ArrivalBook;
  urlOf(path: string): string;
  learn(path: string, secret: string): void;
  behave(paths: readonly string[], behaviour: Behaviour): void;
  ignoreTime(ignore: boolean): void;
  /** Connections are refused while it does not listen. */
  listen(on: boolean): void;
  /** Resolves once the book holds everything that came in before, and what was told is in force. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the sink as a process of its own. */
export async function startSink(): Promise<Sink> {
  const child = fork(MAIN, { serialization: 'advanced', execArgv: [] });
  const book = new ArrivalBook();
  const flushes = new Map<number, () => void>();
  let calls = 0;
  const port = await untilReady(child);
  child.on('message', (message: FromSink) => {
    if (message.kind === 'seen') book.add(message.arrivals, message.endings);
    if (message.kind === 'flushed') {
      flushes.get(message.call)?.();
      flushes.delete(message.call);
    }
  });
  const tell = (message: ToSink): void => void child.send(message);
  return {
    book,
    urlOf: (path) => `http://127.0.0.1:${port}${path}`,
    learn: (path, secret) => tell({ kind: 'secret', path, secret }),
    behave: (paths, behaviour) => tell({ kind: 'behave', paths, behaviour }),
    ignoreTime: (ignore) => tell({ kind: 'ignore-time', ignore }),
    listen: (listen) => tell({ kind: 'listen', listen }),
    flush: () =>
      new Promise((done, fail) => {
        calls += 1;
        const overdue = setTimeout(() => fail(new Error('the sink does not answer')), FLUSH_MS);
        flushes.set(calls, () => {
          clearTimeout(overdue);
          done();
        });
        tell({ kind: 'flush', call: calls });
      }),
    async stop() {
      const gone = once(child, 'exit');
      child.disconnect();
      await gone;
    },
  };
}

async function untilReady(child: ChildProcess): Promise<number> {
  const [message] = (await once(child, 'message')) as [FromSink];
  if (message.kind !== 'ready') throw new Error('the sink did not come up');
  return message.port;
}
