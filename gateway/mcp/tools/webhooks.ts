import { z } from 'zod';
import type {
  CreateSubscriptionResponse,
  Delivery,
  Subscription,
} from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { delivery } from '../../../services/contract/resources/delivery.ts';
import { choice, id, requiredText, typed } from '../../../services/contract/resources/fields.ts';
import { overlapHours, webhookFields } from '../../../services/contract/resources/webhook.ts';
import { deliveryView } from '../../../services/contract/views/delivery.ts';
import { iso, requiredIso, textOrNull } from '../../../services/contract/views/values.ts';
import {
  warningsOf,
  webhookFieldsView,
  webhookView,
} from '../../../services/contract/views/webhook.ts';
import {
  DELIVERY_STATES,
  TOPICS,
  TRIGGERS,
  WEBHOOK_HEALTH,
  WEBHOOK_STATUSES,
} from '../../../services/contract/vocabulary.ts';
import { URL_MAX } from '../../../services/platform/values/text.ts';
import { sent } from '../../actions/context.ts';
import { listDeliveries, replayDelivery } from '../../actions/deliveries.ts';
import { rotateSecret, sendTest } from '../../actions/webhook-secrets.ts';
import {
  createWebhook as create,
  getPayloadVersion,
  listWebhooks as list,
  updateWebhook as update,
} from '../../actions/webhooks.ts';
import { listedWithoutBounds, restriction } from '../schema/arguments.ts';
import {
  cursor,
  detail,
  idempotencyKey,
  limit,
  namedId,
  nextCursor,
  otherTopic,
  otherTrigger,
  time,
  UNTRUSTED,
  webhookId,
} from '../schema/fields.ts';
import { firstThatFits, type PageForm } from '../schema/page-weight.ts';
import { pageOf } from '../schema/pages.ts';
import { asIn, described, undescribed } from '../schema/result-schema.ts';
import { defineTool, readOnlyHints, ToolError } from '../tool.ts';

/** The arguments of a new or changed webhook. */
const webhookArguments = {
  topic: choice(TOPICS).describe('Selects the form of the payload'),
  trigger: choice(TRIGGERS).describe('Selects the event'),
  url: requiredText({ max: URL_MAX }).describe('Absolute https address of a public host'),
  status: choice(WEBHOOK_STATUSES).optional(),
};

/** Where a person reads a secret. No result of a tool contains one. */
function secretHint(webhookId: number): string {
  return `Assistants never get the signing secret. A person reads it with GET /api/webhooks/${webhookId}/secret and an API key with the scope developer_tools.`;
}

/** A new webhook. Never contains the secret. */
const createdWebhookOutput = z.strictObject({
  webhook_id: z.int(),
  delivers: z.boolean(),
  warnings: z.array(z.string()),
  secret_hint: z.string(),
});

function createdWebhookOutputView(
  response: CreateSubscriptionResponse,
): z.output<typeof createdWebhookOutput> {
  const subscription = sent(response.subscription, 'subscription');
  const { id } = webhookFieldsView(subscription);
  return {
    webhook_id: id,
    delivers: subscription.delivers,
    warnings: warningsOf(subscription, response.equalSubscriptionIds).map(({ message }) => message),
    secret_hint: secretHint(id),
  };
}

/** The schema of a time that is absent when there is none. */
const when = () => z.string().optional();

/**
 * A webhook and the state of its deliveries. A field without a value is absent: in the list of tools, an optional field
 * costs half the tokens of one that may be null. The result of a change has no health, which only the list reads. It
 * never contains the secret.
 */
const webhookHealth = z.strictObject({
  ...undescribed(webhookFields.shape),
  delivers: z.boolean().describe('False if the topic never delivers this trigger'),
  health: z
    .enum(WEBHOOK_HEALTH)
    .optional()
    .describe('healthy, failing, paused (only probes) or inactive'),
  success_rate_24h: z.number().optional().describe('0 to 1'),
  failures: z.int().describe('Failed attempts since the last success'),
  failing_since: when(),
  disables_at: when().describe('When it becomes inactive if all attempts continue to fail'),
  oldest_waiting_at: when(),
  inactive_since: when(),
  inactive_reason: z.string().optional().describe('Absent when a person deactivated it'),
  backlog: described(
    'Waiting and held deliveries: count, more, oldest_at',
    z.strictObject({ count: z.int(), more: z.boolean(), oldest_at: when() }),
  ).optional(),
});

/** Fields with the value `undefined` are not in the result. */
function webhookHealthView(subscription: Subscription): z.output<typeof webhookHealth> {
  const { backlog } = subscription;
  return {
    ...webhookFieldsView(subscription),
    delivers: subscription.delivers,
    ...(subscription.health && healthFieldsView(subscription)),
    failures: subscription.failures,
    failing_since: isoOf(subscription.failingSince),
    disables_at: isoOf(subscription.disablesAt),
    inactive_since: isoOf(subscription.inactiveSince),
    inactive_reason: subscription.inactiveReason || undefined,
    backlog: backlog && {
      count: backlog.count,
      more: backlog.more,
      oldest_at: isoOf(backlog.oldestAt),
    },
  };
}

/** The health in the words of REST. */
function healthFieldsView(subscription: Subscription) {
  const { health, success_rate_24h, oldest_waiting_at } = webhookView(subscription);
  return {
    health,
    success_rate_24h: success_rate_24h ?? undefined,
    oldest_waiting_at: oldest_waiting_at ?? undefined,
  };
}

function isoOf(at: Parameters<typeof iso>[0]): string | undefined {
  return iso(at) ?? undefined;
}

export const listWebhooks = defineTool({
  name: 'list_webhooks',
  right: 'seeWebhooks',
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
  sample: () => ({ detail: 'full' }),
  costly: () => ({ limit: 50, detail: 'full' }),
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

export const createWebhook = defineTool({
  name: 'create_webhook',
  right: 'changeWebhooks',
  title: 'Create webhook',
  description:
    'Use this when events must be sent to a new address. Events contain data of shoppers: let the user confirm the address first. A topic and a trigger that never deliver together are stored with a warning.',
  hints: {
    readOnly: { is: false, because: 'It creates a subscription.' },
    destructive: { is: false, because: 'It changes nothing that exists.' },
    idempotent: { is: false, because: 'Each call creates another subscription.' },
    openWorld: { is: true, because: "The shop's events are sent to the new address." },
  },
  input: z.strictObject({ ...webhookArguments, idempotency_key: idempotencyKey }),
  output: createdWebhookOutput,
  subject: ({ topic, trigger }) => `${topic} ${trigger}`,
  sample: () => ({
    topic: 'return',
    trigger: 'return.closed',
    url: 'https://hooks.example.com/new',
  }),
  costly: () => ({ topic: 'return', trigger: 'return.closed', url: 'https://10.0.0.1/' }),
  async run(context, { idempotency_key: _, ...body }) {
    return createdWebhookOutputView(await create(context, body, context.callId));
  },
});

export const updateWebhook = defineTool({
  name: 'update_webhook',
  right: 'changeWebhooks',
  title: 'Update webhook',
  description:
    'Use this when a webhook must get another address or event, or must be activated or deactivated. Omitted fields are not changed. A new address receives the waiting deliveries, with data of shoppers: let the user confirm it first. Activating a webhook sends its held deliveries.',
  hints: {
    readOnly: { is: false, because: 'It changes the subscription.' },
    destructive: {
      is: true,
      because:
        'The sent values replace the stored ones, and waiting deliveries go to the new address.',
    },
    idempotent: { is: true, because: 'A repeat with the same values changes nothing.' },
    openWorld: { is: true, because: "The shop's events are sent to the new address." },
  },
  input: z.strictObject({
    webhook_id: webhookId,
    topic: otherTopic,
    trigger: otherTrigger,
    url: webhookArguments.url.optional(),
    status: webhookArguments.status,
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ webhook: asIn('list_webhooks', webhookHealth) }),
  subject: ({ webhook_id }) => String(webhook_id),
  sample: ({ webhook }) => ({ webhook_id: webhook, status: 'active' }),
  async run(context, { webhook_id, idempotency_key: _, ...changes }) {
    if (Object.values(changes).every((value) => value === undefined)) {
      throw new ToolError('Give at least one of topic, trigger, url and status.');
    }
    const { subscription } = await update(context, BigInt(webhook_id), changes, context.callId);
    return { webhook: webhookHealthView(subscription) };
  },
});

export const testWebhook = defineTool({
  name: 'test_webhook',
  right: 'changeWebhooks',
  title: 'Send test event',
  description:
    'Use this when a webhook must be tried: it sends an event with sample data, of its own trigger or another that the topic delivers. list_webhook_deliveries shows what the receiver responded.',
  hints: {
    readOnly: { is: false, because: 'It sends a delivery.' },
    destructive: { is: false, because: 'It changes nothing that exists.' },
    idempotent: { is: false, because: 'Each call sends another event.' },
    openWorld: { is: true, because: 'It sends data to a webhook endpoint.' },
  },
  input: z.strictObject({
    webhook_id: webhookId,
    trigger: otherTrigger,
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ delivery_id: z.string(), trigger: z.string() }),
  subject: ({ webhook_id }) => String(webhook_id),
  sample: ({ webhook }) => ({ webhook_id: webhook, trigger: 'return.created' }),
  async run(context, { webhook_id, trigger }) {
    const options = { trigger, idempotencyKey: context.callId };
    const delivery = await sendTest(context, BigInt(webhook_id), options);
    return { delivery_id: delivery.id, trigger: delivery.trigger };
  },
});

export const rotateWebhookSecret = defineTool({
  name: 'rotate_webhook_secret',
  right: 'changeWebhooks',
  title: 'Rotate webhook secret',
  description:
    'Use this when the signing secret of a webhook must be replaced. Earlier secrets sign, too, until the overlap ends; before that, the receiver must get the new one. The result never has the secret, but says where a person reads it.',
  hints: {
    readOnly: { is: false, because: 'It makes a new secret.' },
    destructive: { is: true, because: 'Earlier secrets end after the overlap.' },
    idempotent: { is: false, because: 'Each call makes another secret.' },
    openWorld: { is: false, because: 'It calls no other system.' },
  },
  input: z.strictObject({
    webhook_id: webhookId,
    overlap_hours: overlapHours().optional().describe('24 when omitted; 0 ends them immediately'),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ created_at: z.string(), secret_hint: z.string() }),
  subject: ({ webhook_id }) => String(webhook_id),
  sample: ({ webhook }) => ({ webhook_id: webhook, overlap_hours: 48 }),
  costly: ({ webhook }) => ({ webhook_id: webhook, overlap_hours: 168 }),
  async run(context, { webhook_id, overlap_hours }) {
    const options = { overlapHours: overlap_hours, idempotencyKey: context.callId };
    const { createdAt } = await rotateSecret(context, BigInt(webhook_id), options);
    return {
      created_at: requiredIso(createdAt, 'a secret'),
      secret_hint: secretHint(webhook_id),
    };
  },
});

const { attempts: _, ...fields } = delivery.shape;
const attempt = delivery.shape.attempts.element.shape;

/** One delivery attempt, with the receiver's response. */
const attemptOutput = z.strictObject({
  ...attempt,
  url: z.string().describe('The address that the attempt was sent to'),
  untrusted_data: z
    .strictObject({
      response_excerpt: z.string().nullable().describe('The first KiB of the response'),
    })
    .describe(UNTRUSTED),
});

const deliveryOutput = z.strictObject({
  ...undescribed(fields),
  webhook_id: z.int(),
  attempt_count: z.int().describe('Counted up to 50'),
  last_status: z.int().nullable().describe('null without a response'),
  last_error: z.string().nullable(),
  attempts: z
    .array(
      described(
        'Status, error and times of an attempt, and the response in untrusted_data',
        attemptOutput,
      ),
    )
    .optional()
    .describe('Only with detail full'),
});

function deliveryOutputView(one: Delivery, withAttempts: boolean): z.output<typeof deliveryOutput> {
  const { attempts, ...rest } = deliveryView(one);
  const last = attempts.at(-1);
  return {
    ...rest,
    webhook_id: Number(one.subscriptionId),
    attempt_count: attempts.length,
    last_status: last?.status ?? null,
    last_error: last?.error ?? null,
    ...(withAttempts && {
      attempts: attempts.map((tried, at) => ({
        ...tried,
        url: one.attempts[at]?.url ?? '',
        untrusted_data: { response_excerpt: textOrNull(one.attempts[at]?.responseExcerpt) },
      })),
    }),
  };
}

const NARROWER = 'For more, request fewer deliveries with limit.';
const LAST_NOTE = `Only the last attempt of each delivery is here, because the page with all is too long. ${NARROWER}`;
const SUMMARY_NOTE = `These are summary rows, because the page with detail full is too long. ${NARROWER}`;

export const listWebhookDeliveries = defineTool({
  name: 'list_webhook_deliveries',
  right: 'sendDeliveries',
  title: 'List webhook deliveries',
  description:
    'Use this when you need to know what was sent to a webhook in the last 30 days, which deliveries wait, and why deliveries fail. The newest event comes first. Detail full adds every attempt.',
  hints: readOnlyHints('the log of deliveries'),
  input: z.strictObject({
    webhook_id: namedId.optional(),
    state: choice(DELIVERY_STATES)
      .optional()
      .describe('exhausted: all attempts failed; held: the webhook is inactive'),
    trigger: otherTrigger,
    return_id: namedId.optional(),
    from: time('Inclusive').optional(),
    to: time('Exclusive').optional(),
    detail,
    limit,
    cursor,
  }),
  output: z.strictObject({
    deliveries: z.array(
      described(
        'id, event_id, topic, trigger, state, test, api_version, return_id, occurred_at, created_at, next_attempt_at, finished_at, webhook_id, attempt_count (counted up to 50), last_status (null without a response), last_error, and with detail full attempts: status, error, times, and the response in untrusted_data',
        deliveryOutput,
      ),
    ),
    note: z.string().nullable(),
    next_cursor: nextCursor,
  }),
  sample: ({ webhook }) => ({ webhook_id: webhook, detail: 'full', state: 'delivered' }),
  costly: () => ({ limit: 50, detail: 'full' }),
  async run(context, input) {
    const { webhook_id = 0, return_id = 0, state, trigger, from, to } = input;
    const page = await listDeliveries(context, BigInt(webhook_id), {
      state,
      trigger,
      from,
      to,
      returnId: BigInt(return_id),
      limit: input.limit,
      cursor: input.cursor ?? '',
    });
    const summary = page.deliveries.map((one) => deliveryOutputView(one, false));
    const { rows, note } =
      input.detail === 'full' ? fullRows(page.deliveries, summary) : { rows: summary, note: null };
    return { deliveries: [...rows], note, next_cursor: textOrNull(page.nextCursor) };
  },
});

type Row = z.output<typeof deliveryOutput>;

/** The rows with all attempts, or in a shorter form when the page would be too long for an assistant. */
function fullRows(deliveries: readonly Delivery[], summary: readonly Row[]): PageForm<Row> {
  const full = deliveries.map((one) => deliveryOutputView(one, true));
  const last = full.map((row) => ({ ...row, attempts: row.attempts?.slice(-1) }));
  return firstThatFits({ rows: full, note: null }, [
    { rows: last, note: LAST_NOTE },
    { rows: summary, note: SUMMARY_NOTE },
  ]);
}

/**
 * The form of a delivery id. Other texts are not written to the audit log, which must not contain free text of callers.
 */
const DELIVERY_ID = /^msg_[\w-]+$/;
const DELIVERY_ID_MAX = 100;
const DELIVERY_ID_RULE = 'must be the id of a delivery, as list_webhook_deliveries returns it';

export const replayWebhookDelivery = defineTool({
  name: 'replay_webhook_delivery',
  right: 'sendDeliveries',
  title: 'Replay webhook delivery',
  description:
    'Use this when a delivery that has ended must be sent again, for example after its receiver was repaired. It has the same webhook-id and bytes, so a receiver that stores ids recognizes the repeat.',
  hints: {
    readOnly: { is: false, because: 'It sends the delivery again.' },
    destructive: { is: false, because: 'It changes and deletes nothing in this service.' },
    idempotent: {
      is: false,
      because: 'Each call after the delivery has ended sends it again.',
    },
    openWorld: { is: true, because: 'It sends data to a webhook endpoint.' },
  },
  input: z.strictObject({
    delivery_id: listedWithoutBounds(
      z
        .string({ error: typed('a string') })
        .max(DELIVERY_ID_MAX, { error: DELIVERY_ID_RULE })
        .regex(DELIVERY_ID, { error: DELIVERY_ID_RULE }),
    ).describe('Begins with msg_; list_webhook_deliveries returns it'),
    webhook_id: restriction(id().describe('The delivery must belong to this webhook')),
    idempotency_key: idempotencyKey,
  }),
  output: z.strictObject({ delivery: asIn('list_webhook_deliveries', deliveryOutput) }),
  subject: ({ delivery_id }) => delivery_id,
  sample: ({ delivery }) => ({ delivery_id: delivery }),
  costly: ({ webhook, delivery }) => ({ webhook_id: webhook, delivery_id: delivery }),
  async run(context, { delivery_id, webhook_id = 0 }) {
    const delivery = await replayDelivery(context, {
      subscriptionId: BigInt(webhook_id),
      deliveryId: delivery_id,
      idempotencyKey: context.callId,
    });
    return { delivery: deliveryOutputView(delivery, false) };
  },
});
