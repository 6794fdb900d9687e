import { randomUUID } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { Webhook } from 'standardwebhooks';

/** What happened at your platform: docs/openapi/commerce.json has the fields. */
interface PlatformEvent {
  readonly type: 'order.updated' | 'refund.created';
  readonly data: object;
}

const TIMEOUT_MS = 10_000;

/**
 * Sends an event to the returns service. If it throws, send the event again later, with the same `id`: store events
 * with their ids in a table, in the transaction that changes the order, and send them from there.
 *
 * @param o.to `https://<api>/commerce/events/<shop>`.
 * @param o.secret the newest secret of the connection, `whsec_…`.
 * @throws Error when the service did not accept it. With status 400 a repeat does not help.
 */
export async function sendEvent(
  event: PlatformEvent,
  o: { readonly to: string; readonly secret: string; readonly id?: string },
): Promise<void> {
  const id = o.id ?? randomUUID();
  const now = new Date();
  const body = JSON.stringify(event);
  const response = await fetch(o.to, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
      'webhook-signature': new Webhook(o.secret).sign(id, now, body),
    },
    body,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (response.status !== 204) throw new Error(`${response.status}: ${await response.text()}`);
}

// Sends the event on standard input: node send.ts --to <address> < event.json
if (import.meta.main) {
  const { values } = parseArgs({
    options: { to: { type: 'string', default: '' }, id: { type: 'string' } },
  });
  const { COMMERCE_SECRETS = '' } = process.env;
  const [secret = ''] = COMMERCE_SECRETS.split(',');
  const event = JSON.parse(await text(process.stdin));
  const { to, id } = values;
  await sendEvent(event, { to, secret, ...(id !== undefined && { id }) });
  process.stdout.write('accepted\n');
}
