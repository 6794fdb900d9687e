import { once } from 'node:events';
import { type NodeProcess, startNode } from '../../kit/process.ts';
import { ArrivalLog } from './arrival-log.ts';
import type { Behaviour, FromSink, ToSink } from './protocol.ts';

const FLUSH_MS = 60_000;

/** The receiver of all webhooks, and the requests that it received. */
export interface Sink {
  readonly arrivals: ArrivalLog;
  urlOf(path: string): string;
  learn(path: string, secret: string): void;
  behave(paths: readonly string[], behaviour: Behaviour): void;
  ignoreTime(ignore: boolean): void;
  /** Starts or stops listening. Without it connections are rejected. */
  listen(on: boolean): void;
  /** Resolves when `arrivals` contains all earlier arrivals and all commands have been applied. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the sink in a separate process. */
export async function startSink(): Promise<Sink> {
  const sink = startNode({
    name: 'sink',
    args: ['test/faults/sink/main.ts'],
    env: process.env,
    hasChannel: true,
  });
  const { child } = sink;
  const arrivals = new ArrivalLog();
  const flushes = new Map<number, () => void>();
  let calls = 0;
  const port = await untilReady(sink);
  child.on('message', (message: FromSink) => {
    if (message.kind === 'seen') arrivals.add(message.arrivals, message.endings);
    if (message.kind === 'flushed') {
      flushes.get(message.call)?.();
      flushes.delete(message.call);
    }
  });
  const send = (message: ToSink): void => void child.send(message);
  return {
    arrivals,
    urlOf: (path) => `http://127.0.0.1:${port}${path}`,
    learn: (path, secret) => send({ kind: 'secret', path, secret }),
    behave: (paths, behaviour) => send({ kind: 'behave', paths, behaviour }),
    ignoreTime: (ignore) => send({ kind: 'ignore-time', ignore }),
    listen: (listen) => send({ kind: 'listen', listen }),
    flush: () =>
      new Promise((done, fail) => {
        calls += 1;
        const overdue = setTimeout(() => fail(new Error('the sink does not answer')), FLUSH_MS);
        flushes.set(calls, () => {
          clearTimeout(overdue);
          done();
        });
        send({ kind: 'flush', call: calls });
      }),
    async stop() {
      await sink.stop();
    },
  };
}

async function untilReady({ child }: NodeProcess): Promise<number> {
  const [message] = (await once(child, 'message')) as [FromSink];
  if (message.kind !== 'ready') throw new Error('the sink did not come up');
  return message.port;
}
