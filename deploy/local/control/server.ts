import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { ConnectError } from '@connectrpc/connect';
import express, { type ErrorRequestHandler, type RequestHandler, type Router } from 'express';

export class ControlError extends Error {
  override readonly name = 'ControlError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Serves the controls on loopback. Requests need the token. */
export async function startControl(o: {
  readonly port: number;
  readonly token: string;
  readonly routes: Router;
}): Promise<{ stop(): Promise<void> }> {
  const app = express();
  app.disable('x-powered-by');
  app.use(requireToken(o.token), express.json({ limit: '64kb' }), o.routes);
  app.use((_req, res) => {
    res.status(404).json({ error: 'there is no such control' });
  });
  app.use(answerError);
  const server = app.listen(o.port, '127.0.0.1');
  await once(server, 'listening');
  return {
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function requireToken(token: string): RequestHandler {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  const expected = digest(`Bearer ${token}`);
  return (req, res, next) => {
    if (timingSafeEqual(digest(req.headers.authorization ?? ''), expected)) return next();
    res.status(401).json({ error: 'Authorization: Bearer <control_token> is missing or wrong' });
  };
}

const answerError: ErrorRequestHandler = (error, _req, res, next) => {
  if (res.headersSent) return next(error);
  if (error instanceof ControlError) return res.status(error.status).json({ error: error.message });
  if (error instanceof ConnectError) return res.status(502).json({ error: error.message });
  // The error text is included, because the server is local and needs a token.
  res.status(500).json({ error: error instanceof Error ? error.message : String(error) });
};
