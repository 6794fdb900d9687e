import { once } from 'node:events';
import { createServer } from 'node:http';
import { listenOnLoopback } from '../../../deploy/local/loopback.ts';
import { type NodeProcess, startNode } from '../process.ts';

const MAIN = 'test/kit/postgres/template-server.ts';

/**
 * An HTTP server that returns the template of this run. Its first request starts PostgreSQL, so a run without database
 * tests starts none.
 */
export async function serveTemplate(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  let postgres: NodeProcess | undefined;
  let template: Promise<string> | undefined;
  const server = createServer((_req, res) => {
    const env = { ...process.env, NODE_OPTIONS: '' };
    postgres ??= startNode({ args: [MAIN], env, hasChannel: true, onParentExit: 'nothing' });
    template ??= templateOf(postgres);
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
      await postgres?.stop();
    },
  };
}

async function templateOf(postgres: NodeProcess): Promise<string> {
  const ended = postgres.exited.then(() => {
    throw new Error(`PostgreSQL for the tests did not start:\n${postgres.output()}`);
  });
  const [message] = await Promise.race([once(postgres.child, 'message'), ended]);
  return String(message);
}
