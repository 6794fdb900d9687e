import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { listenOnLoopback } from '../../../deploy/local/loopback.ts';

const MAIN = fileURLToPath(new URL('template-server.ts', import.meta.url));

/**
 * Answers every request with the template of this run. The first one starts PostgreSQL, so that a run without database
 * tests starts none.
 */
export async function offerDatabase(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  let child: ChildProcess | undefined;
  let template: Promise<string> | undefined;
  const server = createServer((_req, res) => {
    child ??= fork(MAIN, { execArgv: [], env: { ...process.env, NODE_OPTIONS: '' } });
    template ??= firstMessageOf(child);
    res.setHeader('connection', 'close');
    template.then(
      (text) => res.end(text),
      (error: Error) => res.writeHead(500).end(error.message),
    );
  });
  server.unref();
  const { port, stop } = await listenOnLoopback(server, 0);
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await stop();
      if (!child?.connected) return;
      const gone = once(child, 'exit');
      child.disconnect();
      await gone;
    },
  };
}

async function firstMessageOf(child: ChildProcess): Promise<string> {
  const ended = once(child, 'exit').then(() => {
    throw new Error('PostgreSQL for the tests did not start: its error is in the output of jest');
  });
  const [message] = await Promise.race([once(child, 'message'), ended]);
  return String(message);
}
