import { randomUUID } from 'node:crypto';
import { Router } from 'express';
import { DestinationType } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { cartView } from '../../../services/contract/views/cart.ts';
import { destinationView } from '../../../services/contract/views/destination.ts';
import { type Clients, LOCAL_ACTOR } from '../clients.ts';
import { FIXTURE_NAMES, freshSerial, makeFixture } from '../demo/fixtures.ts';
import type { SeededShop } from '../demo/shops.ts';
import type { DemoShop } from '../demo/submission.ts';
import type { Access } from '../running.ts';
import { ControlError } from './error.ts';

/** `POST /fixtures/<name>?shop=<id>` creates a new fixture of this kind. */
export function fixtureRoutes(access: Access, shops: readonly SeededShop[]): Router {
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
