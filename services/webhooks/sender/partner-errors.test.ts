import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { actor, newShop } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { NO_PUBLIC_ADDRESS } from '../../platform/outbound/failure.ts';
import type { Resolve } from '../../platform/outbound/resolver.ts';

/** Answers of name servers for each name: an inside address, a mixture, or an error. */
const ANSWERS: Readonly<Record<string, readonly string[] | string>> = {
  'inside.example.com': ['10.0.0.1'],
  'both.example.com': ['93.184.215.14', '127.0.0.1'],
  'nothing.example.com': [],
  'missing.example.com': 'ENOTFOUND',
  'empty.example.com': 'ENODATA',
  'broken.example.com': 'ESERVFAIL',
  'refused.example.com': 'EREFUSED',
  'late.example.com': 'ETIMEOUT',
};

const resolve: Resolve = async (name) => {
  const answer = ANSWERS[name] ?? [];
  if (typeof answer !== 'string') return answer;
  throw Object.assign(new Error(`queryA ${answer} ${name}`), { code: answer });
};

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks({ resolve });
});
afterAll(() => webhooks.stop());

/** The first attempt to send to an address with this name: as shown to partners, and as stored. */
async function attemptAt(name: string) {
  const shopId = newShop();
  const { id: subscriptionId } = await webhooks.subscribe({ shopId, url: `https://${name}/` });
  await webhooks.client.sendTest({ shopId, actor, subscriptionId });
  const seen = await until(async () => (await webhooks.deliveries(shopId))[0]?.attempts[0]);
  const { rows } = await webhooks.db.pool.query<{ error: string }>(
    'select error from attempts where shop_id = $1 order by number limit 1',
    [shopId],
  );
  return { seen, stored: rows[0]?.error };
}

test('partners cannot distinguish a name of an inside address from one that does not resolve', async () => {
  const stored = new Set<string | undefined>();
  for (const name of Object.keys(ANSWERS)) {
    const attempt = await attemptAt(name);
    const { error, status, timing, responseExcerpt } = attempt.seen;
    expect([name, error, status, responseExcerpt]).toEqual([name, NO_PUBLIC_ADDRESS, 0, '']);
    expect(timing).not.toHaveProperty('dnsMs');
    stored.add(attempt.stored);
  }
  // Operators of the service can.
  expect(stored).toContain('address not allowed');
  expect(stored).toContain('host name not found');
});
