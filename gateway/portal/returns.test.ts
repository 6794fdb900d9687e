import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { FraudService } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { FieldErrorSchema } from '../../proto/gen/rms/portal/v1/common_pb.ts';
import {
  CustomerSchema,
  DispositionOutcome,
  ReturnSchema,
  ReturnState,
  TotalsSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { InstantRefundState, ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { FAKE, sampleReturn } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';

let under: TestGateway;
let agent: PortalPerson;

beforeAll(async () => {
  under = await startTestGateway();
  agent = await portalPerson(under, { shopId: 1n, role: 'admin' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const returns = () => agent.client(ReturnsService);
const { open } = FAKE.returns;
const find = (value: bigint, person = agent) =>
  person.client(ReturnsService).findReturn({ selector: { case: 'returnId', value } });
const key = (): string => crypto.randomUUID();

describe('returns in the portal', () => {
  test('are shown without the address of the shopper, and without payments', async () => {
    const person = { firstName: 'Jane', email: 'jane@example.com' };
    const customer = create(CustomerSchema, { ...person, address: { city: 'Leeds' } });
    under.services.returns.findReturn = () => ({
      return: {
        ...sampleReturn(),
        customer,
        upsellPaymentReference: 'pi_1',
      },
    });
    const { return: shown } = await find(open);
    expect(shown).toMatchObject({ id: open, order: { name: '#1001' }, state: ReturnState.OPEN });
    expect(shown?.customer).toMatchObject(person);
    expect(shown?.customer?.address).toBeUndefined();
    expect(shown?.upsellPaymentReference).toBe('');
  });

  test('are listed as summaries with their details, archived ones, too', async () => {
    const { searchReturns } = under.services.returns;
    let asked: object = {};
    under.services.returns.searchReturns = async (request, context) => {
      asked = request;
      return (await searchReturns?.(request, context)) ?? {};
    };
    const states = [ReturnState.OPEN, ReturnState.REVIEW];
    // What the page does not choose, it cannot change.
    const page = await returns().searchReturns({ query: '#1001', states, summaries: false });
    expect(asked).toMatchObject({
      shopId: 1n,
      query: '#1001',
      states,
      summaries: true,
      details: true,
      includeArchived: true,
    });
    expect(page.summaries).toMatchObject([{ id: open, details: { customerFirstName: 'Jane' } }]);
    expect(page.total).toBe(1);
  });

  test('are checked for those who decide, without the card of an instant refund', async () => {
    const money = { value: '8.00', currency: 'GBP' };
    under.services.returns.checkReturn = () => ({
      cancelRefusal: 'part of the return was already paid',
      instantRefunds: [{ id: 3n, state: InstantRefundState.OPEN, money, chargeReference: 'card' }],
    });
    const checked = await returns().checkReturn({ returnId: open });
    expect(checked.instantRefunds).toMatchObject([{ id: 3n, money, chargeReference: '' }]);
    const analyst = await portalPerson(under, { shopId: 1n, role: 'analyst' });
    const error = await errorOf(analyst.client(ReturnsService).checkReturn({ returnId: open }));
    expect(error.code).toBe(Code.PermissionDenied);
  });

  test('show the name of their destination also to those who may not see destinations', async () => {
    const analyst = await portalPerson(under, { shopId: 1n, role: 'analyst' });
    const { destination } = await analyst
      .client(DestinationsService)
      .getDestination({ destinationId: FAKE.destination });
    expect(destination?.name).not.toBe('');
    expect(destination?.address).toBeUndefined();
    const whole = await agent
      .client(DestinationsService)
      .getDestination({ destinationId: FAKE.destination });
    expect(whole.destination?.type).not.toBe(destination?.type);
  });

  test('tell others only that there is a report', async () => {
    under.services.returns.getTimeline = () => ({
      entries: [
        {
          id: 1n,
          kind: 'fraud_report.created',
          text: 'A fraud report was created',
          facts: { category: 'item-is-worn' },
          actor: { kind: 1, id: '7', name: 'Bo', through: 'assistant claude.ai' },
        },
      ],
    });
    const entriesFor = async (role: 'analyst' | 'warehouse') => {
      const person = await portalPerson(under, { shopId: 1n, role });
      return (await person.client(ReturnsService).getTimeline({ returnId: open })).entries;
    };
    expect(await entriesFor('analyst')).toMatchObject([
      {
        facts: { category: 'item-is-worn' },
        actor: { name: 'Bo', through: 'assistant claude.ai' },
      },
    ]);
    const [hidden] = await entriesFor('warehouse');
    expect([hidden?.text, hidden?.facts, hidden?.actor?.name ?? '']).toEqual([
      'A fraud report was created',
      {},
      '',
    ]);
  });

  test('are processed from the portal, once for each key', async () => {
    const keys: string[] = [];
    const { processReturn } = under.services.returns;
    under.services.returns.processReturn = (request, context) => {
      keys.push(request.idempotencyKey);
      expect(request).toMatchObject({
        shopId: 1n,
        source: 'admin',
        details: {},
        actor: { id: String(agent.userId), through: 'portal' },
      });
      return processReturn?.(request, context) ?? {};
    };
    const idempotencyKey = key();
    const done = await returns().processReturn({
      returnId: open,
      idempotencyKey,
      source: 'warehouse',
      details: { a: { value: { case: 'text', value: 'b' } } },
    });
    expect(done.result.case).toBe('queued');
    await returns().processReturn({ returnId: open, idempotencyKey });
    await returns().processReturn({ returnId: open, idempotencyKey: key() });
    expect(keys).toHaveLength(3);
    expect([keys[0] === keys[1], keys[1] === keys[2]]).toEqual([true, false]);
    const error = await errorOf(returns().processReturn({ returnId: open }));
    expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'idempotency_key' }]);
  });

  test.each([
    [0n, Code.NotFound],
    [-1n, Code.NotFound],
    [999n, Code.NotFound],
  ])('with the id %s do not exist', async (returnId, code) => {
    expect(await errorOf(find(returnId))).toMatchObject({ code });
  });

  test('are not changed when the session has moved to another shop than the page shows', async () => {
    let calls = 0;
    under.services.returns.cancelReturn = () => {
      calls += 1;
      return {};
    };
    const tab = agent.client(ReturnsService, { 'portal-shop': '2' });
    const error = await errorOf(tab.cancelReturn({ returnId: open, idempotencyKey: key() }));
    expect([error.code, calls]).toEqual([Code.FailedPrecondition, 0]);
    const same = agent.client(ReturnsService, { 'portal-shop': '1' });
    expect((await same.getTimeline({ returnId: open })).entries).toHaveLength(1);
  });

  test('of another shop do not exist', async () => {
    const other = await portalPerson(under, { shopId: await under.newShop(), role: 'owner' });
    const error = await errorOf(find(open, other));
    expect(error).toMatchObject({ code: Code.NotFound });
  });

  test('name the order and the amounts in the audit entries of processing and of a cancellation', async () => {
    const sample = create(ReturnSchema, {
      ...sampleReturn(),
      currency: 'GBP',
      totals: create(TotalsSchema, { refund: '12.50', returnCreditTotal: '0.00' }),
    });
    const announced = { orderName: '#1001', currency: 'GBP', refund: '5.00', returnCredit: '3.00' };
    under.services.returns.processReturn = () => ({
      result: { case: 'queued', value: {} },
      announced,
    });
    under.services.returns.cancelReturn = () => ({ return: sample });
    const newest = (action: string) =>
      until(async () => {
        const { rows } = await under.database.pool.query<{ phase: string; fields: string }>(
          `select detail->>'phase' as phase, (select string_agg(concat(c->>'field', ' ', c->>'to'), ', ')
                    from jsonb_array_elements(detail->'changes') c) as fields
             from audit_log where actor_id = $1 and action = $2 order by id desc limit 1`,
          [String(agent.userId), action],
        );
        return rows[0]?.phase === 'done' && rows[0].fields;
      });
    await returns().processReturn({ returnId: open, idempotencyKey: key() });
    expect(await newest('portal.process_return')).toBe(
      'order #1001, refund 5.00 GBP, return_credit 3.00 GBP',
    );
    await returns().cancelReturn({ returnId: open, idempotencyKey: key() });
    expect(await newest('portal.cancel_return')).toBe('order #1001, refund 12.50 GBP');
    under.resetServices();
  });

  test('write one entry to the audit log for each change, with the outcome', async () => {
    await returns()
      .cancelReturn({ returnId: open, idempotencyKey: key() })
      .catch(() => {});
    await errorOf(returns().addNote({ returnId: 999n, text: 'x', idempotencyKey: key() })).catch(
      () => {},
    );
    under.services.returns.flagReturn = () => {
      throw new Error('a bug');
    };
    const failed = await errorOf(
      returns().flagReturn({ returnId: open, reasons: ['x'], idempotencyKey: key() }),
    );
    expect(failed.rawMessage).toMatch(/^Something went wrong on our side. Quote the request id /);
    await until(async (see) => {
      const { rows } = await under.database.pool.query<{ entry: string }>(
        `select concat_ws(' ', action, subject, detail->>'phase') as entry from audit_log
          where actor_id = $1 and action = 'portal.flag_return' order by id`,
        [String(agent.userId)],
      );
      return see(rows.map(({ entry }) => entry)).join() === `portal.flag_return ${open} unknown`;
    });
  });

  test('change nothing while the audit log cannot be written', async () => {
    let calls = 0;
    under.services.returns.unflagReturn = () => {
      calls += 1;
      return {};
    };
    const migrator = new pg.Client({ connectionString: under.database.migratorUrl });
    await migrator.connect();
    await migrator.query('revoke insert on gateway.open_calls from rms_gateway');
    try {
      const call = returns().unflagReturn({ returnId: open, idempotencyKey: key() });
      await errorOf(call);
      expect(calls).toBe(0);
    } finally {
      await migrator.query('grant insert on gateway.open_calls to rms_gateway');
      await migrator.end();
    }
  });

  test('show that a service is away without the cause', async () => {
    under.services.returns.getTimeline = () => {
      throw new ConnectError('10.0.0.7:8080 refused', Code.Unavailable);
    };
    const error = await errorOf(returns().getTimeline({ returnId: open }));
    expect(error).toMatchObject({ code: Code.Unavailable });
    expect(error.rawMessage).not.toContain('10.0.0.7');
  });

  test('have a fraud report or none', async () => {
    const fraud = agent.client(FraudService);
    expect((await fraud.getReport({ returnId: open })).report).toBeUndefined();
    const { reported: returnId } = FAKE.returns;
    expect((await fraud.getReport({ returnId })).report?.id).toBeDefined();
    const again = { returnId, category: 'other', comment: 'x', idempotencyKey: key() };
    expect(await errorOf(fraud.createReport(again))).toMatchObject({ code: Code.AlreadyExists });
  });

  test('that were changed in the meantime are not processed', async () => {
    under.services.returns.processReturn = ({ expectedRevision }) => {
      const text = `the return is now at revision 8, not ${expectedRevision}`;
      const field = 'expected_revision';
      throw new DomainError(Code.Aborted, ErrorReason.REVISION_CONFLICT, text, { field });
    };
    const call = { returnId: open, expectedRevision: 7n, idempotencyKey: key() };
    const error = await errorOf(returns().processReturn(call));
    expect(error.code).toBe(Code.FailedPrecondition);
    expect(error.rawMessage).toMatch(/changed in the meantime/);
  });

  test('are inspected by a warehouse, only their own line items', async () => {
    const asked: unknown[] = [];
    const { gradeItems, assess } = under.services.dispositions;
    under.services.dispositions.gradeItems = (request, context) => {
      asked.push([request.returnId, request.items.map(({ category, note }) => [category, note])]);
      return gradeItems?.(request, context) ?? {};
    };
    under.services.dispositions.assess = (request, context) => {
      asked.push([request.returnId, request.withoutNotes]);
      return assess?.(request, context) ?? {};
    };
    const warehouse = await portalPerson(under, { shopId: 1n, role: 'warehouse' });
    const client = warehouse.client(DispositionsService);
    const call = () => ({ returnId: open, idempotencyKey: key() });
    const { lineItem: lineItemId } = FAKE;
    const items = [{ lineItemId, category: 'grade_b', note: 'A scratch' }];
    await client.gradeItems({ ...call(), items });
    const outcome = DispositionOutcome.DONATE;
    await client.assess({ ...call(), items: [{ lineItemId, outcome }] });
    expect(asked).toEqual([
      [open, [['grade_b', 'A scratch']]],
      [open, true],
    ]);
    const other = client.gradeItems({ ...call(), items: [{ lineItemId: 987_654n }] });
    expect((await errorOf(other)).code).toBe(Code.NotFound);
  });
});

describe('destinations in the portal', () => {
  test('are changed, with a sentence for a wrong field', async () => {
    const client = agent.client(DestinationsService);
    const { destinations } = await client.listDestinations({});
    expect(destinations.length).toBeGreaterThan(0);
    const change = {
      destinationId: FAKE.destination,
      name: 'Leeds',
      idempotencyKey: key(),
    };
    expect((await client.updateDestination(change)).destination?.name).toBe('Leeds');
  });
});
