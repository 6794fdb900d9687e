import type { Sent } from '../gateway/rest-client.ts';
import { MISSING_DELIVERY } from '../journeys/expected-errors.ts';
import type { StackShop } from '../stack.ts';

/** The path of an operation in one version. */
export const at = (path: string) => `/api/2026-10${path}`;

/** The most expensive valid request of each operation on webhooks, without filling. */
export function costlyWebhookRequests({ fixtures }: StackShop) {
  const hook = at(`/webhooks/${fixtures.webhooks[0]?.id ?? 0}`);
  const pair = { topic: 'return', trigger: 'return.closed' };
  const webhook = {
    ...pair,
    url: `https://hooks.example.com/${'x'.repeat(1_900)}`,
    status: 'inactive',
  };
  // Of the whole shop: the count reads the most.
  const wide = { from: '2026-01-01T00:00:00Z', states: ['delivered', 'exhausted', 'expired'] };
  // Of one return: a start sends what it matches.
  const narrow = { ...wide, ...pair, return_id: fixtures.returns.open?.[0]?.id ?? 0 };
  return {
    listWebhooks: () => ({ path: at('/webhooks') }),
    createWebhook: () => ({
      path: at('/webhooks'),
      json: { ...webhook, url: 'https://10.0.0.1/' },
    }),
    getWebhook: () => ({ path: hook }),
    updateWebhook: () => ({ method: 'PUT', path: hook, json: webhook }),
    deleteWebhook: () => ({ method: 'DELETE', path: at('/webhooks/987654321') }),
    listDeliveries: () => ({ path: `${hook}/deliveries?limit=100` }),
    retryDeliveries: () => ({ method: 'POST', path: `${hook}/deliveries/retry` }),
    replayDelivery: () => ({
      method: 'POST',
      path: `${hook}/deliveries/${MISSING_DELIVERY}/replay`,
    }),
    testWebhook: () => ({ path: `${hook}/test`, json: { trigger: 'return.closed' } }),
    rotateWebhookSecret: () => ({ path: `${hook}/secret/rotate`, json: { overlap_hours: 168 } }),
    getWebhookSecret: () => ({ path: `${hook}/secret` }),
    endEarlierSecrets: () => ({ method: 'DELETE', path: `${hook}/secret/previous` }),
    previewReplay: () => ({ path: at('/webhook-replay-previews'), json: wide }),
    startReplay: () => ({ path: at('/webhook-replays'), json: narrow }),
    listReplays: () => ({ path: at('/webhook-replays?limit=100') }),
    getReplay: () => ({ path: at('/webhook-replays/987654321') }),
    cancelReplay: () => ({ method: 'POST', path: at('/webhook-replays/987654321/cancel') }),
  } satisfies Record<string, () => Sent>;
}
