import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { type Hook, partnerForTests } from '../kit/journeys/hooks.ts';
import { journeyForTests } from '../kit/journeys/journey.ts';
import { isInstalled, LANGUAGES, type Language } from '../kit/receivers/languages.ts';
import {
  type Message,
  type RunningReceiver,
  startLanguage,
} from '../kit/receivers/running-receiver.ts';
import { until } from '../kit/until.ts';
import type { Received } from '../kit/webhooks/receiver.ts';

const journey = journeyForTests();
const partner = partnerForTests(journey);

const BODY = JSON.stringify({ topic: 'return', trigger: 'return.created', id: 1, note: 'Ünïcode' });
const TOLERANCE_S = 300;

/** A message that is valid unless `o` says otherwise. @param o.age of its timestamp, in seconds. */
function messageOf(
  secret: string,
  o: { readonly body?: string; readonly age?: number } = {},
): Message {
  const { body = BODY, age = 0 } = o;
  const id = `msg_${randomUUID()}`;
  const time = new Date(Date.now() - age * 1_000);
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(time.getTime() / 1_000)),
    'webhook-signature': new Webhook(secret).sign(id, time, body),
  };
  return { headers, body };
}

const idOf = ({ headers }: Message) => headers['webhook-id'] ?? '';

/** What arrived, as the receiver behind this address gets it. */
function forwarded({ headers, bytes }: Received): Message {
  const sent = Object.entries(headers).filter(([name]) =>
    /^(webhook|x-service|content-type)/.test(name),
  );
  return {
    headers: Object.fromEntries(sent.map(([name, value]) => [name, String(value)])),
    body: bytes,
  };
}

/** Sends a test event to the webhook, and returns its `webhook-id`. */
async function sendTest({ id }: Hook): Promise<string> {
  const { body } = await journey.send({ method: 'POST', path: `/api/2026-10/webhooks/${id}/test` });
  return (body as { id: string }).id;
}

async function stateOf({ id }: Hook, delivery: string): Promise<string | undefined> {
  const { body } = await journey.send({ path: `/api/2026-10/webhooks/${id}/deliveries` });
  const { deliveries } = body as { deliveries: { id: string; state: string }[] };
  return deliveries.find((one) => one.id === delivery)?.state;
}

/** The address of the webhook forwards to this receiver, and responds as it does. */
function forwardTo(receiver: RunningReceiver): void {
  partner.receiver.answer = async (response, received) => {
    response.writeHead(await receiver.post(forwarded(received))).end();
  };
}

const installed: Language[] = [];
for (const language of LANGUAGES) {
  if (isInstalled(language)) {
    installed.push(language);
    continue;
  }
  const sentence = `the receiver in ${language.name} is not tested here: it needs ${language.packages}`;
  if (language.isRequired || process.env.CI) {
    test(sentence, () => {
      throw new Error(sentence);
    });
  } else test.skip(sentence, () => {});
}

describe.each(installed)('the receiver in $name', (language) => {
  let hook: Hook;
  let receiver: RunningReceiver;
  beforeAll(async () => {
    hook = await partner.subscribe('return', 'return.created');
    receiver = await startLanguage(language, hook.secret);
    forwardTo(receiver);
  });
  afterAll(() => receiver?.stop());

  test('accepts a delivery of the running system and prints it', async () => {
    const id = await sendTest(hook);
    await until(async () => (await stateOf(hook, id)) === 'delivered');
    await until(() => receiver.printed(id).length === 1);
    expect(receiver.printed(id)[0]).toContain('return.created');
    expect(receiver.printed(id)[0]).toMatch(/^\S+ test /);
  });

  test('accepts a repeat, also at the same time, and prints it once', async () => {
    const [real] = partner.received(hook);
    if (!real) throw new Error('nothing was received');
    expect(await receiver.post(forwarded(real))).toBe(204);
    const fresh = messageOf(hook.secret);
    const statuses = await Promise.all(Array.from({ length: 8 }, () => receiver.post(fresh)));
    expect(new Set(statuses)).toEqual(new Set([204]));
    // A later message is printed after all of these.
    const last = messageOf(hook.secret);
    await receiver.post(last);
    await until(() => receiver.printed(idOf(last)).length === 1);
    expect(receiver.printed(idOf(fresh))).toHaveLength(1);
    expect(receiver.printed(idOf(fresh))[0]).not.toMatch(/^\S+ test /);
    expect(receiver.printed(idOf(forwarded(real)))).toHaveLength(1);
  });

  const wrong = `whsec_${randomBytes(32).toString('base64')}`;
  const without = (message: Message, name: string) => ({
    ...message,
    headers: Object.fromEntries(Object.entries(message.headers).filter(([one]) => one !== name)),
  });
  const withSignature = (message: Message, signature: string) => ({
    ...message,
    headers: { ...message.headers, 'webhook-signature': signature },
  });
  const signatureOf = ({ headers }: Message) => headers['webhook-signature'] ?? '';
  test.each<[string, (good: Message, secret: string) => Message]>([
    ['a changed body', (good) => ({ ...good, body: `${good.body} ` })],
    [
      'another id',
      (good) => ({ ...good, headers: { ...good.headers, 'webhook-id': 'msg_other' } }),
    ],
    ['an old timestamp', (_, secret) => messageOf(secret, { age: TOLERANCE_S + 60 })],
    ['a future timestamp', (_, secret) => messageOf(secret, { age: -TOLERANCE_S - 60 })],
    ['a wrong secret', () => messageOf(wrong)],
    ['no id', (good) => without(good, 'webhook-id')],
    ['no timestamp', (good) => without(good, 'webhook-timestamp')],
    ['no signature', (good) => without(good, 'webhook-signature')],
    ['an empty signature', (good) => withSignature(good, 'v1,')],
    ['another version', (good) => withSignature(good, signatureOf(good).replace('v1,', 'v1a,'))],
    ['half a signature', (good) => withSignature(good, signatureOf(good).slice(0, 20))],
  ])('rejects %s', async (_, change) => {
    const good = messageOf(hook.secret);
    const bad = change(good, hook.secret);
    expect(await receiver.post(bad)).toBe(401);
    // The unchanged message is valid, and the rejected one did not use its id.
    expect(await receiver.post(good)).toBe(204);
    await until(() => receiver.printed(idOf(good)).length === 1);
    if (idOf(bad) !== idOf(good)) expect(receiver.printed(idOf(bad))).toEqual([]);
  });

  test('accepts a body of 24 MiB', async () => {
    const body = JSON.stringify({ trigger: 'return.created', note: 'x'.repeat(24 * 1024 * 1024) });
    const large = messageOf(hook.secret, { body });
    expect(await receiver.post(large)).toBe(204);
    await until(() => receiver.printed(idOf(large)).length === 1);
  });

  test('accepts the old and the new secret while the secret rotates', async () => {
    const rotated = await journey.send({
      path: `/api/2026-10/webhooks/${hook.id}/secret/rotate`,
      json: { overlap_hours: 1 },
    });
    const { secret } = rotated.body as { secret: string };
    const id = await sendTest(hook);
    await until(async () => (await stateOf(hook, id)) === 'delivered');
    const both = partner.received(hook).find(({ headers }) => headers['webhook-id'] === id);
    if (!both) throw new Error('nothing was received');
    expect(String(both.headers['webhook-signature']).split(' ')).toHaveLength(2);
    await until(() => receiver.printed(id).length === 1);

    const next = await startLanguage(language, secret);
    try {
      expect(await next.post(forwarded(both))).toBe(204);
      expect(await next.post(messageOf(hook.secret))).toBe(401);
    } finally {
      await next.stop();
    }
  });

  test('loses no event whose id it cannot keep', async () => {
    const full = await startLanguage(language, hook.secret, '/dev/null/ids');
    try {
      const message = messageOf(hook.secret);
      expect(await full.post(message)).toBe(204);
      await until(() => full.printed(idOf(message)).length === 1);
    } finally {
      await full.stop();
    }
  });

  test('without a secret it accepts nothing, also not what the empty key signs', async () => {
    const started = await startLanguage(language, '').catch((error: Error) => error.message);
    if (typeof started === 'string') return expect(started).toContain('WEBHOOK_SECRET');
    const { headers, body } = messageOf(wrong);
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    const mac = createHmac('sha256', '').update(signed).digest('base64');
    const status = await started.post(withSignature({ headers, body }, `v1,${mac}`));
    await started.stop();
    expect(status).toBe(500);
  });
});
