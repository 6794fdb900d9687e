import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { ConnectError } from '@connectrpc/connect';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { listenOnLoopback } from '../loopback.ts';
import type { Plan, Stopper } from '../plan.ts';
import type { Running } from '../running.ts';
import { commerceRoutes } from './commerce.ts';
import { ControlError } from './error.ts';
import { fixtureRoutes } from './fixtures.ts';
import { stackRoutes } from './routes.ts';

/** Serves the controls on loopback, for tests and for manual trials. Requests need the token. */
export async function startControl(
  plan: Plan,
  running: Running,
): Promise<Stopper & { readonly url: string }> {
  const { access, shops } = running;
  const app = express();
  app.disable('x-powered-by');
  app.use(requireToken(plan.memory.memory.controlToken), express.json({ limit: '64kb' }));
  app.use(fixtureRoutes(access, shops), commerceRoutes(access.commerce), stackRoutes(running));
  app.use((_req, res) => {
    res.status(404).json({ error: 'there is no such control' });
  });
  app.use(answerError);
  const { port, stop } = await listenOnLoopback(createServer(app), plan.ports.control);
  return { url: `http://127.0.0.1:${port}`, stop };
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
