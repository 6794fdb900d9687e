import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { ConnectError } from '@connectrpc/connect';
import express, { type ErrorRequestHandler, type RequestHandler, Router } from 'express';
import pg from 'pg';
import { z } from 'zod';
import { DestinationType } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { EmbeddedCommerce, LedgerEntry } from '../../services/commerce/embedded.ts';
import { cartView, destinationView } from '../../services/contract/views/objects.ts';
import { SCHEMAS } from '../../services/platform/postgres/schemas.ts';
import { type Clients, LOCAL_ACTOR } from './clients.ts';
import { FIXTURE_NAMES, freshSerial, makeFixture } from './demo/fixtures.ts';
import type { SeededShop } from './demo/shops.ts';
import type { DemoShop } from './demo/submission.ts';
import { listenOnLoopback } from './loopback.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Access, Running } from './running.ts';

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

const after = z.coerce.number().int().min(0).default(0);
const recipient = z.string().max(320).optional();
const advance = z.object({ advance_s: z.number().min(0) });

/** Limits, outbox, events, mails, and the services of the stack. */
function stackRoutes({ access, bus, gateway, mails, services }: Running): Router {
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

const id = z.coerce.bigint().positive();
const failure = z.object({
  return_id: z.number().int().positive(),
  kind: z.enum(['passing', 'final']),
  times: z.number().int().min(0).max(1_000_000).default(1),
});

/** Shows the ledger of the embedded commerce provider, and can make it fail. */
function commerceRoutes(commerce: EmbeddedCommerce): Router {
  const router = Router();
  router.get('/commerce/orders', async (req, res) => {
    const ledger = await commerce.ordersOf(parsed(id, req.query.return_id));
    res.json({
      orders: ledger.orders.map(entryOf),
      gift_cards: ledger.giftCards.map(entryOf),
      refunds: ledger.refunds.map(entryOf),
      restocks: ledger.restocks.map(entryOf),
      cancellations: ledger.cancellations.map(entryOf),
    });
  });
  router.post('/commerce/fail', async (req, res) => {
    const { return_id, kind, times } = parsed(failure, req.body);
    await commerce.failNext({ returnId: BigInt(return_id), kind, times });
    res.status(204).end();
  });
  return router;
}

function entryOf(entry: LedgerEntry) {
  return {
    id: Number(entry.id),
    amount: entry.amount,
    currency: entry.currency,
    idempotency_key: entry.idempotencyKey,
    calls: entry.calls,
    additional_details: entry.additionalDetails,
  };
}

/** `POST /fixtures/<name>?shop=<id>` creates a new fixture of this kind. */
function fixtureRoutes(access: Access, shops: readonly SeededShop[]): Router {
  const router = Router();
  router.post('/fixtures/:name', async (req, res) => {
    const shop = shops.find(({ id }) => String(id) === (req.query.shop ?? '1'));
    if (!shop) throw new ControlError(404, `there is no demo shop ${req.query.shop}`);
    const { id, currency, fixtures } = shop;
    const demoShop = { id, currency, destinationId: fixtures.destinations.linked };
    res.status(201).json(await make(req.params.name, access, demoShop));
  });
  return router;
}

async function make(name: string, access: Access, shop: DemoShop): Promise<unknown> {
  if (name === 'destination') return makeDestination(access.clients, shop);
  if (name === 'cart') return makeCart(access.clients, shop);
  const kind = FIXTURE_NAMES.find((one) => one === name);
  if (!kind) {
    const names = [...FIXTURE_NAMES, 'destination', 'cart'].join(', ');
    throw new ControlError(404, `there is no fixture ${name}; there are ${names}`);
  }
  const { clients, commerce } = access;
  const context = { clients, commerce, shop, seededAt: new Date() };
  const key = `fixture:${randomUUID()}`;
  return makeFixture(context, kind, { key, serial: freshSerial() });
}

async function makeDestination(clients: Clients, shop: DemoShop) {
  const { destination } = await clients.destinations.createDestination({
    shopId: BigInt(shop.id),
    actor: LOCAL_ACTOR,
    idempotencyKey: randomUUID(),
    name: 'Fresh warehouse',
    type: DestinationType.WAREHOUSE,
    address: { address1: '1 Sample Street', city: 'London', zip: 'N1 1AA', countryCode: 'GB' },
  });
  return destination && destinationView(destination);
}

async function makeCart(clients: Clients, shop: DemoShop) {
  const { cart } = await clients.carts.createCart({
    shopId: BigInt(shop.id),
    actor: LOCAL_ACTOR,
    entries: [{ variantId: 50_001n }],
  });
  return cart && cartView(cart);
}

/** An error of the control server, with the HTTP status of its response. */
class ControlError extends Error {
  override readonly name = 'ControlError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** @throws ControlError 400 that says what is invalid. */
function parsed<T extends z.ZodType>(schema: T, value: unknown): z.infer<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new ControlError(400, z.prettifyError(result.error));
}
