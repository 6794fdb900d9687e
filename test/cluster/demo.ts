import { z } from 'zod';
import { DEV } from './kubectl.ts';

/** A return of the demo shop. */
export const demoReturn = z.object({ id: z.number(), order_name: z.string() });
const demoPage = z.object({
  users: z.array(z.object({ name: z.string(), email: z.string(), password: z.string() })),
  shops: z
    .array(
      z.object({
        id: z.number(),
        api_keys: z.object({ all: z.string() }),
        fixtures: z.object({ returns: z.object({ open: z.array(demoReturn) }) }),
      }),
    )
    .min(1),
});
const webhooks = z.array(
  z.object({
    webhook_id: z.string(),
    path: z.string(),
    sequence: z.coerce.number(),
    valid: z.literal(true),
    payload: z.object({ id: z.number() }).nullable(),
  }),
);

export type DemoReturn = z.infer<typeof demoReturn>;

/** What there is to try in the dev overlay: its first shop, and the people. */
export async function demoShop() {
  const { shops, users } = demoPage.parse(await ask('demo.json'));
  const [shop] = shops;
  if (!shop) throw new Error('the demo has no shop');
  return { id: shop.id, key: shop.api_keys.all, returns: shop.fixtures.returns.open, users };
}

interface Arrived {
  readonly count: number;
  readonly returnId: number;
  readonly sequence: number;
}

/** What the receiver has got at a path: how often each webhook id came, and the sequence of its change. */
export async function arrived(at: string): Promise<ReadonlyMap<string, Arrived>> {
  const byId = new Map<string, Arrived>();
  const all = webhooks.parse(await ask('webhooks.json'));
  for (const { webhook_id, payload, sequence } of all.filter(({ path }) => path === at)) {
    const known = byId.get(webhook_id);
    byId.set(webhook_id, {
      count: (known?.count ?? 0) + 1,
      returnId: payload?.id ?? known?.returnId ?? 0,
      sequence,
    });
  }
  return byId;
}

async function ask(page: string): Promise<unknown> {
  const receiver = await DEV.forward('service/receiver', 8080);
  try {
    return await (await fetch(`${receiver.url}/${page}`)).json();
  } finally {
    receiver.stop();
  }
}
