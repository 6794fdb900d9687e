import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { InstantRefundState } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
let agent: PortalPerson;

beforeAll(async () => {
  under = await startTestGateway();
  agent = await portalPerson(under, { shopId: 1n, role: 'admin' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const open = String(FAKE.returns.open);
const key = (): string => crypto.randomUUID();

describe('returns in the portal', () => {
  test('say before why they would not be processed or cancelled', async () => {
    const money = { value: '8.00', currency: 'GBP' };
    under.services.returns.checkReturn = () => ({
      process: { result: { case: 'skippedInstantRefund', value: {} } },
      cancelRefusal: 'part of the return was already paid',
      cancelsOrder: true,
      instantRefunds: [{ id: 3n, state: InstantRefundState.OPEN, money }],
    });
    const { return: shown } = await agent.client(ReturnsService).getReturn({ returnId: open });
    expect(shown).toMatchObject({
      processingRefused: expect.stringMatching(/instant refund is still open/),
      cancelRefused: 'Part of the return was already paid.',
      cancelsOrder: true,
      instantRefunds: [{ id: '3', state: 'open', money }],
      processingDoes: [],
    });
    expect(shown?.possible).not.toContain('process');
    under.services.returns.processReturn = () => ({
      result: { case: 'skippedInstantRefund', value: {} },
    });
    const done = await agent
      .client(ReturnsService)
      .processReturn({ returnId: open, idempotencyKey: key() });
    expect(done.message).toBe(shown?.processingRefused);
  });

  test('are not checked for users who decide nothing', async () => {
    let calls = 0;
    under.services.returns.checkReturn = () => {
      calls += 1;
      return {};
    };
    const analyst = await portalPerson(under, { shopId: 1n, role: 'analyst' });
    await analyst.client(ReturnsService).getReturn({ returnId: open });
    expect(calls).toBe(0);
  });
});
