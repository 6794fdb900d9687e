import { createServer } from 'node:http';
import { listenOnLoopback } from '../../../deploy/local/loopback.ts';
import type { TemplateServer } from './template-server.ts';

/**
 * Answers every request with the template of this run. The first one starts PostgreSQL, so that a run without database
 * tests starts none.
 */
export async function offerDatabase(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  let started: Promise<TemplateServer> | undefined;
  const server = createServer((_req, res) => {
    started ??= import('./template-server.ts').then(({ startTemplateServer }) =>
      startTemplateServer(),
    );
    res.setHeader('connection', 'close');
    started.then(
      ({ template }) => res.end(JSON.stringify(template)),
      (error: unknown) => res.writeHead(500).end(String(error)),
    );
  });
  server.unref();
  const { port, stop } = await listenOnLoopback(server, 0);
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await stop();
      // A failed start was reported to the tests, and left nothing to stop.
      await started?.then(
        (running) => running.stop(),
        () => {},
      );
    },
  };
}
