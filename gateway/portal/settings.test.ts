import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
  ReturnsService,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';

let under: TestGateway;
let owner: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  owner = await portalPerson(under, { shopId: await under.newShop(), role: 'owner' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const settings = {
  currency: 'GBP',
  restockMode: RestockMode.OFF,
  giftCardMode: GiftCardMode.PROVIDER,
  labelProvider: LabelProvider.OWN,
  expiryDays: 28,
  processingRetryMinutes: 15,
};

/** The changes of an entry of the audit log. */
const changesOf = (what: string) =>
  until(async () => {
    const { entries } = await owner.client(AuditService).listAuditEntries({});
    const entry = entries.find((one) => one.what === what && one.outcome === 'done');
    return entry?.changes.map(({ field, from, to }) => ({ field, from, to }));
  });

describe('the settings of a shop in the portal', () => {
  test('are changed with what the user saw, and recorded from and to', async () => {
    const asked: unknown[] = [];
    under.services.returns.updateSettings = ({ settings: to, expected, shopId }) => {
      asked.push({ to: to?.expiryDays, expected: expected?.expiryDays, shopId });
      return { settings: { ...settings, expiryDays: 14 }, previous: settings };
    };
    const change = { settings: { expiryDays: 14 }, expected: { expiryDays: 28 } };
    await owner.client(ReturnsService).updateSettings({ ...change, shopId: 7n });
    expect(asked).toEqual([{ to: 14, expected: 28, shopId: owner.shopId }]);
    expect(await changesOf('Change the settings of the shop')).toEqual([
      { field: 'expiry_days', from: '28', to: '14' },
    ]);
  });

  test.each([[{ sandbox: true }], [{ sandbox: false }], [{ currency: 'EUR' }]])(
    'are not %j: that is the operator’s',
    async (wanted) => {
      let isCalled = false;
      under.services.returns.updateSettings = () => {
        isCalled = true;
        return {};
      };
      const call = owner.client(ReturnsService).updateSettings({ settings: wanted });
      expect((await errorOf(call)).code).toBe(Code.InvalidArgument);
      expect(isCalled).toBe(false);
    },
  );

  test('that somebody changed in the meantime are refused in the words of the service', async () => {
    under.services.returns.updateSettings = () => {
      const text = 'somebody has set expiry days to 7 in the meantime';
      const field = 'expected.expiry_days';
      throw new DomainError(Code.Aborted, ErrorReason.REVISION_CONFLICT, text, { field });
    };
    const call = owner.client(ReturnsService).updateSettings({ settings: { expiryDays: 14 } });
    expect(await errorOf(call)).toMatchObject({
      code: Code.Aborted,
      rawMessage: 'Somebody has set expiry days to 7 in the meantime.',
    });
  });
});

describe('the commerce platform in the portal', () => {
  test('is none for a shop without a connection', async () => {
    expect((await owner.client(CommerceService).getConnection({})).connection).toBeUndefined();
  });

  test('is recorded without the secrets of its address', async () => {
    const url = 'https://api.example.com/returns?token=s3cr3t';
    await owner.client(CommerceService).connect({ url, force: true });
    expect(await changesOf('Connect the commerce platform')).toEqual([
      { field: 'url', from: '', to: 'https://api.example.com/returns?token=…' },
      { field: 'force', from: '', to: 'yes' },
    ]);
  });
});
