import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { FieldErrorSchema } from '../../proto/gen/rms/portal/v1/common_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;

beforeAll(async () => {
  under = await startTestGateway();
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const open = String(FAKE.returns.open);
const key = (): string => crypto.randomUUID();

describe('returns in the portal', () => {
  test('are graded and get dispositions, only their own line items, each once', async () => {
    const asked: unknown[] = [];
    const { gradeItems, assess } = under.services.dispositions;
    under.services.dispositions.gradeItems = (request, context) => {
      asked.push(
        request.items.map(({ lineItemId, category, note }) => [lineItemId, category, note]),
      );
      return gradeItems?.(request, context) ?? {};
    };
    under.services.dispositions.assess = (request, context) => {
      asked.push(request.items.map(({ lineItemId, outcome }) => [lineItemId, outcome]));
      return assess?.(request, context) ?? {};
    };
    const warehouse = await portalPerson(under, { shopId: 1n, role: 'warehouse' });
    const client = warehouse.client(ReturnsService);
    const lineItemId = String(FAKE.lineItem);
    const grade = (items: object[]) =>
      client.gradeItems({ returnId: open, idempotencyKey: key(), items });
    const graded = await grade([{ lineItemId, finding: 'grade_b', note: 'A scratch' }]);
    expect(graded.return?.summary?.id).toBe(open);
    await client.recordDispositions({
      returnId: open,
      idempotencyKey: key(),
      items: [{ lineItemId, finding: 'donate' }],
    });
    expect(asked).toEqual([
      [[FAKE.lineItem, 'grade_b', 'A scratch']],
      [[FAKE.lineItem, DispositionOutcome.DONATE]],
    ]);
    for (const [items, field] of [
      [[], 'items'],
      [[{ lineItemId, finding: 'grade_e' }], 'finding'],
      [
        [
          { lineItemId, finding: 'junk' },
          { lineItemId, finding: 'junk' },
        ],
        'items',
      ],
    ] as const) {
      const error = await errorOf(grade([...items]));
      expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field }]);
    }
    const other = await errorOf(grade([{ lineItemId: '987654', finding: 'junk' }]));
    expect(other.code).toBe(Code.NotFound);
    expect(asked).toHaveLength(2);
  });
});
