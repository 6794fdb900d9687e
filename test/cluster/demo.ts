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

/** What the receiver has got at a path: how often each webhook id came. */
export async function arrived(
  at: string,
): Promise<ReadonlyMap<string, { count: number; returnId: number }>> {
  const byId = new Map<string, { count: number; returnId: number }>();
  const all = webhooks.parse(await ask('webhooks.json'));
  for (const { webhook_id, payload } of all.filter(({ path }) => path === at)) {
    const known = byId.get(webhook_id);
    byId.set(webhook_id, {
      count: (known?.count ?? 0) + 1,
      returnId: payload?.id ?? known?.returnId ?? 0,
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
