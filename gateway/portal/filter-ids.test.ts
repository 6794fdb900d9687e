import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
let owner: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  owner = await portalPerson(under, { shopId: 1n, role: 'owner' });
});
afterAll(() => under.stop());

describe('a filter by an id that no object can have selects nothing', () => {
  const calls: readonly [string, (id: string) => Promise<unknown>][] = [
    ['filter.return_id', (id) => audit().listAuditEntries({ filter: { returnId: id } })],
    ['filter.return_id', (id) => audit().exportAuditEntries({ filter: { returnId: id } })],
  ];
  const audit = () => owner.client(AuditService);

  test.each(calls)('%s, call %#', async (field, call) => {
    for (const id of ['0', '-1', '9007199254740992']) {
      const { code, rawMessage } = await errorOf(call(id));
      expect({ code, rawMessage }).toEqual({
        code: Code.InvalidArgument,
        rawMessage: `${field} must be the number of an object.`,
      });
    }
  });
});
