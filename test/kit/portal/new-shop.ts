import { randomUUID } from 'node:crypto';
import { admin } from '../journeys/admin.ts';
import { gatewayPool } from './gateway-pool.ts';
import { portalPerson } from './portal.ts';
import { newVisitor, type Portal, type Visitor } from './visitor.ts';

/** A shop of its own, so that nothing of the shared shops changes. */
export interface NewShop {
  readonly shopId: number;
  /** A person with this role, in a browser of its own. */
  visit(role: 'owner' | 'admin' | 'developer'): Promise<Visitor>;
}

/** Creates a shop in pounds in the shared stack. */
export async function newShop({
  stack,
  browser,
}: Pick<Portal, 'stack' | 'browser'>): Promise<NewShop> {
  const owner = `${randomUUID()}@example.com`;
  const about = ['--name', 'Mugs', '--currency', 'GBP', '--owner-email', owner];
  const printed = await admin(stack, 'shop', 'create', ...about);
  const shopId = Number(/\d+/.exec(printed)?.[0]);
  const { base_url: baseUrl } = stack.file;
  return {
    shopId,
    async visit(role) {
      const pool = gatewayPool(stack);
      const under = { gateway: { baseUrl }, database: { pool } };
      const { secret } = await portalPerson(under, { shopId: BigInt(shopId), role });
      await pool.end();
      const visitor = await newVisitor(stack, browser);
      const cookie = { name: 'rms_portal', value: secret, url: baseUrl };
      await visitor.page.context().addCookies([cookie]);
      await visitor.open('/sessions');
      return visitor;
    },
  };
}
