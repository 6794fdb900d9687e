import express, { type Express, type Request } from 'express';
import { signatureHolds } from '../local/demo/receiver.ts';
import type { MailCatcher } from '../local/mails.ts';
import { type Contents, demoPage } from './page.ts';
import { Received } from './received.ts';

const MAX_BODY = '4mb';
/** Number of webhooks, and of mails, on the page. The JSON has all. */
const SHOWN = 100;

export interface ReceiverParts {
  readonly contents: Contents;
  /** Tells whether a secret of the demo's webhooks fits. */
  readonly fitsSecret: (fits: (secret: string) => boolean) => Promise<boolean>;
  /** The mails that the mail server beside it has caught. */
  readonly mails: MailCatcher['mails'];
}

/**
 * Accepts webhooks by POST at any path, and shows them and the mails: `/` for people, `/webhooks.json` and
 * `/mails.json?to=` for programs. `/demo.json` has the demo's shops, keys and users.
 */
export function createReceiver({ contents, fitsSecret, mails }: ReceiverParts): Express {
  const received = new Received();
  const app = express();
  app.disable('x-powered-by');
  app.get('/', (_req, res) => {
    const shown = { webhooks: received.list(SHOWN), mails: mails().slice(0, SHOWN) };
    res.send(demoPage(contents, shown));
  });
  app.get('/demo.json', (_req, res) => res.json(contents.json));
  app.get('/webhooks.json', (_req, res) => res.json(received.list()));
  app.get('/mails.json', ({ query: { to } }, res) =>
    res.json(mails(typeof to === 'string' ? to : undefined)),
  );
  app.get('/livez', (_req, res) => res.sendStatus(200));
  app.get('/readyz', (_req, res) => res.sendStatus(contents.ready ? 200 : 503));
  app.post(/.*/, express.raw({ type: '*/*', limit: MAX_BODY }), async (req, res) => {
    const body: unknown = req.body;
    const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0);
    received.add({
      received_at: new Date().toISOString(),
      path: req.path,
      webhook_id: header(req, 'webhook-id'),
      event_id: header(req, 'x-service-event-id'),
      sequence: header(req, 'x-service-sequence'),
      valid: await fitsSecret((secret) => signatureHolds(req, bytes, secret)),
      payload: parsed(bytes),
    });
    res.sendStatus(204);
  });
  return app;
}

function header(req: Request, name: string): string {
  return req.get(name) ?? '';
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
}
