import { randomUUID } from 'node:crypto';
import { Router } from 'express';
import { DestinationType } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { cartView } from '../../../services/contract/views/cart.ts';
import { destinationView } from '../../../services/contract/views/destination.ts';
import { type Clients, LOCAL_ACTOR } from '../clients.ts';
import { FIXTURE_NAMES, type FixtureContext, freshSerial, makeFixture } from '../demo/fixtures.ts';
import type { DemoShop } from '../demo/submission.ts';
import { ControlError } from './server.ts';

export interface Fixtures {
  readonly clients: Clients;
  readonly shops: readonly DemoShop[];
  readonly failProcessing: FixtureContext['failProcessing'];
}

/** `POST /fixtures/<name>?shop=<id>` creates a new fixture of this kind. */
export function fixtureRoutes(fixtures: Fixtures): Router {
  const router = Router();
  router.post('/fixtures/:name', async (req, res) => {
    const shop = fixtures.shops.find(({ id }) => String(id) === (req.query.shop ?? '1'));
    if (!shop) throw new ControlError(404, `there is no demo shop ${req.query.shop}`);
    res.status(201).json(await make(req.params.name, fixtures, shop));
  });
  return router;
}

async function make(name: string, fixtures: Fixtures, shop: DemoShop): Promise<unknown> {
  if (name === 'destination') return makeDestination(fixtures.clients, shop);
  if (name === 'cart') return makeCart(fixtures.clients, shop);
  const kind = FIXTURE_NAMES.find((one) => one === name);
  if (!kind) {
    const names = [...FIXTURE_NAMES, 'destination', 'cart'].join(', ');
    throw new ControlError(404, `there is no fixture ${name}; there are ${names}`);
  }
  const { clients, failProcessing } = fixtures;
  const context = { clients, shop, seededAt: new Date(), failProcessing };
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
