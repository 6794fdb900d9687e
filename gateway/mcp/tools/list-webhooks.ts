import { z } from 'zod';
import { getPayloadVersion, listWebhooks as list } from '../../actions/webhooks.ts';
import { cursor, detail, limit, nextCursor } from '../fields.ts';
import { pageOf } from '../pages.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { webhookHealth, webhookHealthView } from '../views/webhook.ts';

export const listWebhooks = defineTool({
  name: 'list_webhooks',
  title: 'List webhooks',
  description:
    "Use this when you need the shop's webhook subscriptions: where events go, how deliveries fare, why one is inactive, and the payload version. What has no value is absent. Detail full adds the backlog.",
  hints: readOnlyHints("the shop's webhook subscriptions"),
  input: z.strictObject({ detail, limit, cursor }),
  output: z.strictObject({
    payload_version: z.string().describe('The API version of the payloads'),
    webhooks: z.array(webhookHealth),
    next_cursor: nextCursor,
  }),
  async run(context, input) {
    const [subscriptions, version] = await Promise.all([
      list(context, { backlog: input.detail === 'full', health: true }),
      getPayloadVersion(context),
    ]);
    const page = pageOf('webhooks', subscriptions, input);
    return {
      payload_version: version,
      webhooks: page.rows.map(webhookHealthView),
      next_cursor: page.nextCursor,
    };
  },
});
