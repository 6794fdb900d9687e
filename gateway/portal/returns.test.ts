import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { FieldErrorSchema } from '../../proto/gen/rms/portal/v1/common_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/portal/v1/destinations_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { LabelStatus, Outcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { sampleSummary } from '../../test/kit/gateway/fake-return-tools.ts';
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
const open = String(FAKE.returns.open);
const key = (): string => crypto.randomUUID();

describe('returns in the portal', () => {
  test('are shown with what the user may do and what processing would do', async () => {
    const { return: shown } = await returns().getReturn({ returnId: open });
    expect(shown?.summary).toMatchObject({ id: open, orderName: '#1001', state: 'open' });
    expect(shown?.possible).toEqual([
      'process',
      'flag',
      'cancel',
      'add_note',
      'inspect',
      'report_fraud',
    ]);
    expect(shown?.processingDoes.at(-1)).toBe(
      'The return is closed and archived. This cannot be undone.',
    );
    const analyst = await portalPerson(under, { shopId: 1n, role: 'analyst' });
    const seen = await analyst.client(ReturnsService).getReturn({ returnId: open });
    expect(seen.return?.possible).toEqual([]);
  });

  test('are listed by the filters of the page', async () => {
    const { searchReturns } = under.services.returns;
    let asked: unknown;
    under.services.returns.searchReturns = async (request, context) => {
      const { shopId, query, states, pageSize } = request;
      asked = { shopId, query, states: states.length, pageSize };
      return (await searchReturns?.(request, context)) ?? {};
    };
    const page = await returns().listReturns({
      text: '#1001',
      states: ['open', 'review'],
      pageSize: 10,
    });
    expect(asked).toEqual({ shopId: 1n, query: '#1001', states: 2, pageSize: 10 });
    expect(page.returns).toMatchObject([
      {
        id: open,
        state: 'open',
        outcome: 'refund',
        units: 2,
        titles: ['Shirt', 'Socks'],
        customerName: 'Jane Doe',
        customerEmail: 'jane@example.com',
        labelStatus: '',
        total: { value: '10.00', currency: 'GBP' },
      },
    ]);
    expect(page.total).toBe(1);
    const error = await errorOf(returns().listReturns({ states: ['lost'] }));
    expect(error).toMatchObject({ code: Code.InvalidArgument });
    expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'states' }]);
  });

  test('are filtered by label and outcome by the service that has them', async () => {
    const asked: unknown[] = [];
    under.services.returns.searchReturns = ({ labelStatuses, withoutLabel, outcomes }) => {
      asked.push({ labelStatuses, withoutLabel, outcomes });
      return { summaries: [sampleSummary()], nextCursor: 'b', total: 3 };
    };
    const page = await returns().listReturns({
      labelStatuses: ['in_transit', 'none'],
      outcomes: ['exchange+credit'],
    });
    expect([page.returns.length, page.nextCursor, page.total]).toEqual([1, 'b', 3]);
    expect(asked).toEqual([
      {
        labelStatuses: [LabelStatus.IN_TRANSIT],
        withoutLabel: true,
        outcomes: [Outcome.EXCHANGE_CREDIT],
      },
    ]);
    const error = await errorOf(returns().listReturns({ labelStatuses: ['lost'] }));
    expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'label_statuses' }]);
    const other = await errorOf(returns().listReturns({ outcomes: ['gift'] }));
    expect(other.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'outcomes' }]);
  });

  test('are marked and filtered by their flag and their fraud report', async () => {
    const asked: unknown[] = [];
    under.services.returns.searchReturns = ({ flaggedOnly, fraudReportedOnly }) => {
      asked.push([flaggedOnly, fraudReportedOnly]);
      const reported = { ...sampleSummary().details, fraudReported: true };
      return { summaries: [sampleSummary(), { ...sampleSummary(), id: 2n, details: reported }] };
    };
    const { returns: listed } = await returns().listReturns({ fraudReported: true });
    await returns().listReturns({ flagged: true });
    expect(listed.map(({ fraudReported }) => fraudReported)).toEqual([false, true]);
    expect(asked).toEqual([
      [false, true],
      [true, false],
    ]);
  });

  test('show the numbers of the shopper to those who may see fraud reports', async () => {
    under.services.returns.searchReturns = ({ fraudReportedOnly }) => ({
      total: fraudReportedOnly ? 2 : 7,
    });
    const { shopper } = await returns().getFraudReport({ returnId: open });
    expect(shopper).toMatchObject({ returns: 7, fraudReported: 2 });
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
      return (await person.client(ReturnsService).listTimeline({ returnId: open })).entries;
    };
    expect(await entriesFor('analyst')).toMatchObject([
      { facts: { category: 'item-is-worn' }, by: { name: 'Bo', through: 'assistant claude.ai' } },
    ]);
    const [hidden] = await entriesFor('warehouse');
    expect([hidden?.text, hidden?.facts, hidden?.by?.name ?? '']).toEqual([
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
        actor: { id: String(agent.userId), through: 'portal' },
      });
      return processReturn?.(request, context) ?? {};
    };
    const idempotencyKey = key();
    const done = await returns().processReturn({ returnId: open, idempotencyKey });
    expect(done.result).toBe('queued');
    await returns().processReturn({ returnId: open, idempotencyKey });
    await returns().processReturn({ returnId: open, idempotencyKey: key() });
    expect(keys).toHaveLength(3);
    expect([keys[0] === keys[1], keys[1] === keys[2]]).toEqual([true, false]);
    const error = await errorOf(returns().processReturn({ returnId: open }));
    expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'idempotency_key' }]);
  });

  test.each([
    ['0', Code.NotFound],
    ['-1', Code.NotFound],
    ['9007199254740992', Code.NotFound],
    ['999', Code.NotFound],
  ])('with the id %s do not exist', async (returnId, code) => {
    expect(await errorOf(returns().getReturn({ returnId }))).toMatchObject({ code });
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
    expect((await same.getReturn({ returnId: open })).return?.summary?.id).toBe(open);
  });

  test('of another shop do not exist', async () => {
    const other = await portalPerson(under, { shopId: await under.newShop(), role: 'owner' });
    const error = await errorOf(other.client(ReturnsService).getReturn({ returnId: open }));
    expect(error).toMatchObject({ code: Code.NotFound });
  });

  test('write two entries to the audit log for each change, with the outcome', async () => {
    await returns()
      .cancelReturn({ returnId: open, idempotencyKey: key() })
      .catch(() => {});
    await errorOf(returns().addNote({ returnId: '999', text: 'x', idempotencyKey: key() })).catch(
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
      return (
        see(rows.map(({ entry }) => entry)).join() ===
        `portal.flag_return ${open} asked,portal.flag_return ${open} unknown`
      );
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
    await migrator.query('revoke insert on gateway.audit_log from rms_gateway');
    try {
      const call = returns().unflagReturn({ returnId: open, idempotencyKey: key() });
      await errorOf(call);
      expect(calls).toBe(0);
    } finally {
      await migrator.query('grant insert on gateway.audit_log to rms_gateway');
      await migrator.end();
    }
  });

  test('show that a service is away without the cause', async () => {
    under.services.returns.getTimeline = () => {
      throw new ConnectError('10.0.0.7:8080 refused', Code.Unavailable);
    };
    const error = await errorOf(returns().listTimeline({ returnId: open }));
    expect(error).toMatchObject({ code: Code.Unavailable });
    expect(error.rawMessage).not.toContain('10.0.0.7');
  });

  test('have a fraud report or none', async () => {
    const none = await returns().getFraudReport({ returnId: open });
    expect(none.report).toBeUndefined();
    const reported = String(FAKE.returns.reported);
    expect((await returns().getFraudReport({ returnId: reported })).report?.id).toBeDefined();
    const again = { returnId: reported, category: 'other', comment: 'x', idempotencyKey: key() };
    expect(await errorOf(returns().createFraudReport(again))).toMatchObject({
      code: Code.AlreadyExists,
    });
  });
});

describe('destinations in the portal', () => {
  test('are changed, with a sentence for a wrong field', async () => {
    const client = agent.client(DestinationsService);
    const { destinations } = await client.listDestinations({});
    expect(destinations.length).toBeGreaterThan(0);
    const change = {
      destinationId: String(FAKE.destination),
      name: 'Leeds',
      idempotencyKey: key(),
    };
    expect((await client.updateDestination(change)).destination?.name).toBe('Leeds');
    const error = await errorOf(client.updateDestination({ ...change, type: 'moon' }));
    expect(error.rawMessage).toBe('type must be one of warehouse, donate.');
  });
});
