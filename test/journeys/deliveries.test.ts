import { expect, test } from '@jest/globals';
import { delivers } from '../../services/contract/topics/topics.ts';
import { TOPICS, TRIGGERS } from '../../services/contract/vocabulary.ts';
import { partnerForTests, verified } from '../kit/journeys/hooks.ts';
import { callIn, journeyForTests } from '../kit/journeys/journey.ts';
import { refusal } from '../kit/services/running-service.ts';

const journey = journeyForTests();
const partner = partnerForTests(journey);

test('one trace contains the REST request and the webhook', async () => {
  const { stack, send } = journey;
  const hook = await partner.subscribe('return', 'return.closed');
  const { id } = await stack.fixture('open');
  const traceId = id.toString(16).padStart(32, 'ab');
  await send({
    method: 'POST',
    path: `/api/2026-10/warehouse/return/${id}/process`,
    headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
  });
  const received = await partner.nth(hook, 1);
  expect(String(received.headers.traceparent).split('-')[1]).toBe(traceId);
});

test('no webhook goes to a forbidden address or to the stack itself, in any notation', async () => {
  const { file } = journey.stack;
  const port = new URL(partner.receiver.url).port;
  const own = [
    file.base_url,
    file.auth_url,
    file.identity_url,
    file.control_url,
    `http://${file.grpc.returns}`,
    ...Object.values(file.base_url_at),
    ...Object.values(file.metrics),
  ];
  const spelled = [
    ...['localhost', '127.1', '2130706433', '0x7f.1', '127.0.0.1.', '[::1]'],
    ...['[::ffff:127.0.0.1]', '0.0.0.0', '127.0.0.2'],
  ];
  const urls = [
    ...file.receivers.refused_examples,
    ...own.map((url) => `${url}/hook`),
    ...spelled.map((host) => `http://${host}:${port}/hook`),
    ...spelled.map((host) => `https://${host}/hook`),
    ...['https://192.168.1.1/', 'https://[fd00::1]/', 'https://metadata.internal/'],
  ];
  for (const url of urls) {
    const json = { topic: 'return', trigger: 'return.closed', url };
    const { status, body } = await journey.send({ path: '/api/2026-10/webhooks', json });
    expect([url, status, body]).toEqual([
      url,
      422,
      { errors: { code: 'FAILED_TO_CREATE_WEBHOOK', message: expect.any(String) } },
    ]);
  }
});

test('a test event works exactly for the pairs of topic and trigger that are delivered', async () => {
  const { services, stack } = journey;
  for (const topic of TOPICS) {
    const hook = await partner.subscribe(topic, 'return.closed');
    const call = { ...callIn(stack.shop), subscriptionId: BigInt(hook.id) };
    for (const trigger of TRIGGERS) {
      const sending = services.webhooks.sendTest({ ...call, trigger });
      if (!delivers(topic, trigger)) {
        expect(await refusal(sending)).toMatchObject({ reason: 'INVALID_FIELD', field: 'trigger' });
        continue;
      }
      expect((await sending).delivery).toMatchObject({ test: true, topic, trigger });
    }
    const wanted = TRIGGERS.filter((trigger) => delivers(topic, trigger));
    expect(wanted).not.toEqual([]);
    await partner.nth(hook, wanted.length);
    const received = partner.received(hook);
    expect(received.map((one) => verified(hook, one).trigger).sort()).toEqual([...wanted].sort());
    for (const { headers } of received) expect(headers['x-service-api-version']).toBe('2026-07');
  }
});
