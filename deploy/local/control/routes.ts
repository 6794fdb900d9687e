import { Router } from 'express';
import pg from 'pg';
import { z } from 'zod';
import { SCHEMAS } from '../../../services/platform/schemas.ts';
import type { Running } from '../running.ts';
import { ControlError, parsed } from './error.ts';

const after = z.coerce.number().int().min(0).default(0);
const recipient = z.string().max(320).optional();
const advance = z.object({ advance_s: z.number().min(0) });

/** Limits, outbox, events, mails, and the services of the stack. */
export function stackRoutes({ access, bus, gateway, mails, services }: Running): Router {
  const router = Router();
  router.post('/limits/reset', async (_req, res) => {
    await gateway.resetLimits();
    res.status(204).end();
  });
  router.get('/outbox', async (_req, res) => {
    res.json(await outboxDepths(access.pools.migrator));
  });
  router.get('/events', (req, res) => {
    res.json(bus.since(parsed(after, req.query.after)));
  });
  router.get('/mails', (req, res) => {
    res.json(mails.mails(parsed(recipient, req.query.to)));
  });
  router.post('/services/:name/stop', async (req, res) => {
    known(await services.stopService(req.params.name), req.params.name);
    res.status(204).end();
  });
  router.post('/services/:name/start', async (req, res) => {
    known(await services.startService(req.params.name), req.params.name);
    res.status(204).end();
  });
  router.post('/clock/webhooks', (req, res) => {
    services.advanceWebhookClock(parsed(advance, req.body).advance_s);
    res.status(204).end();
  });
  return router;
}

function known(exists: boolean, name: string): void {
  if (!exists) throw new ControlError(404, `there is no service ${name}`);
}

/** The number of unpublished events, by service. Reads as the migrator. */
async function outboxDepths(pool: pg.Pool): Promise<Record<string, number>> {
  const publishers = SCHEMAS.filter(({ capabilities }) => capabilities.includes('outbox'));
  const counts = publishers.map(
    ({ name }) =>
      `select ${pg.escapeLiteral(name)} as name, count(*)::int as waiting from ${pg.escapeIdentifier(name)}.outbox`,
  );
  const { rows } = await pool.query<{ name: string; waiting: number }>(counts.join(' union all '));
  return Object.fromEntries(rows.map(({ name, waiting }) => [name, waiting]));
}
