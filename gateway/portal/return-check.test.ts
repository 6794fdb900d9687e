import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { ReturnSchema, TotalsSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { InstantRefundState } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

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

  test('are processed only with the effects that were shown, and a repeat is answered', async () => {
    const returns = agent.client(ReturnsService);
    const { findReturn } = under.services.returns;
    const become = (refund: string, processing = false) => {
      under.services.returns.findReturn = async (asked, context) => {
        const found = await findReturn?.(asked, context);
        const presentmentTotals = create(TotalsSchema, { refund });
        const changed = {
          ...found?.return,
          refunds: [],
          presentmentTotals,
          processing,
          revision: 7n,
        };
        return { return: create(ReturnSchema, changed) };
      };
    };
    become('40.00');
    const { return: shown } = await returns.getReturn({ returnId: open });
    const effects = shown?.processingDoes ?? [];
    expect(effects.length).toBeGreaterThan(1);
    const queued: (bigint | undefined)[] = [];
    under.services.returns.processReturn = ({ expectedRevision }) => {
      queued.push(expectedRevision);
      return { result: { case: 'queued', value: {} } };
    };
    const request = { returnId: open, idempotencyKey: key(), shownEffects: effects };
    become('90.00');
    const { code, rawMessage } = await errorOf(returns.processReturn(request));
    expect(code).toBe(Code.FailedPrecondition);
    expect(rawMessage).toMatch(/changed in the meantime/);
    expect(queued).toEqual([]);

    // The first try was carried out, and its answer was lost.
    become('90.00', true);
    expect((await returns.processReturn(request)).result).toBe('queued');
    // The service compares it under the lock of the return, with changes that come after the comparison of the effects.
    expect(queued).toEqual([7n]);
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
