import { Router } from 'express';
import { z } from 'zod';
import { type Fixtures, fixtureRoutes } from './fixtures.ts';
import { ControlError } from './server.ts';

/** An entry of a return in the ledger of the commerce provider. */
export interface CommerceRecord {
  readonly id: number;
  readonly amount: string;
  readonly currency: string;
  readonly idempotency_key: string;
  readonly calls: number;
  readonly additional_details: unknown;
}

export interface Controls extends Fixtures {
  resetLimits(): Promise<void>;
  commerceOf(returnId: bigint): Promise<{
    readonly orders: readonly CommerceRecord[];
    readonly gift_cards: readonly CommerceRecord[];
    readonly refunds: readonly CommerceRecord[];
  }>;
  failCommerce(o: { returnId: bigint; kind: 'passing' | 'final'; times: number }): Promise<void>;
  outbox(): Promise<Record<string, number>>;
  eventsAfter(position: number): readonly unknown[];
  stopService(name: string): Promise<boolean>;
  startService(name: string): Promise<boolean>;
  advanceWebhookClock(seconds: number): void;
}

const id = z.coerce.bigint().positive();
const failure = z.object({
  return_id: z.number().int().positive(),
  kind: z.enum(['passing', 'final']),
  times: z.number().int().min(0).max(1_000_000).default(1),
});
const advance = z.object({ advance_s: z.number().min(0) });

/** The routes of the control server, for tests and for manual trials. */
export function controlRoutes(controls: Controls): Router {
  const router = Router();
  router.use(fixtureRoutes(controls));

  router.post('/limits/reset', async (_req, res) => {
    await controls.resetLimits();
    res.status(204).end();
  });
  router.get('/commerce/orders', async (req, res) => {
    res.json(await controls.commerceOf(parsed(id, req.query.return_id)));
  });
  router.post('/commerce/fail', async (req, res) => {
    const { return_id, kind, times } = parsed(failure, req.body);
    await controls.failCommerce({ returnId: BigInt(return_id), kind, times });
    res.status(204).end();
  });
  router.get('/outbox', async (_req, res) => {
    res.json(await controls.outbox());
  });
  router.get('/events', (req, res) => {
    const after = z.coerce.number().int().min(0).default(0);
    res.json(controls.eventsAfter(parsed(after, req.query.after)));
  });
  router.post('/services/:name/stop', async (req, res) => {
    known(await controls.stopService(req.params.name), req.params.name);
    res.status(204).end();
  });
  router.post('/services/:name/start', async (req, res) => {
    known(await controls.startService(req.params.name), req.params.name);
    res.status(204).end();
  });
  router.post('/clock/webhooks', (req, res) => {
    controls.advanceWebhookClock(parsed(advance, req.body).advance_s);
    res.status(204).end();
  });
  return router;
}

/** @throws ControlError 400 with the fault. */
export function parsed<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new ControlError(400, z.prettifyError(result.error));
}

function known(exists: boolean, name: string): void {
  if (!exists) throw new ControlError(404, `there is no service ${name}`);
}
