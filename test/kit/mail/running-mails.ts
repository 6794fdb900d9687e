import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import PostalMime, { type Email } from 'postal-mime';
import { gatewayShape } from '../../../gateway/config.ts';
import { mailSettings } from '../../../gateway/mail/config.ts';
import { type Mails, startMails } from '../../../gateway/mail/start.ts';
import { addMember } from '../../../gateway/tenancy/members.ts';
import type { Role } from '../../../gateway/tenancy/permissions.ts';
import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import {
  type DeclareWithdrawalRequestSchema,
  type DeclareWithdrawalResponse,
  DeclareWithdrawalResponseSchema,
} from '../../../proto/gen/rms/returns/v1/withdrawals_pb.ts';
import { type EventBus, eventsTopic } from '../../../services/platform/bus/event-bus.ts';
import { createInProcessBus } from '../../../services/platform/bus/in-process.ts';
import { signingBus } from '../../../services/platform/bus/signed-bus.ts';
import { forTargets } from '../../../services/platform/services.ts';
import { createTestDatabase } from '../database.ts';
import { TEST_AUTHOR } from '../gateway/test-gateway.ts';
import { eventSignatures, identity } from '../services/running-service.ts';
import { silentLogger, testTelemetry } from '../services/telemetry.ts';
import { testSettings } from '../settings.ts';
import { until } from '../until.ts';
import { type MailServer, startMailServer } from './mail-server.ts';
import { recordOf } from './webhook-events.ts';

/** A shop with an owner and members, whose addresses begin with their role. */
export interface ShopWithMembers {
  readonly shopId: bigint;
  addressOf(role: Role): string;
}

export interface MailsUnderTest {
  readonly pool: pg.Pool;
  readonly server: MailServer;
  /** The bus without signatures, which any writer of a topic can use. */
  readonly bus: EventBus;
  /** The mails of the running gateway. */
  mails(): Mails;
  /** The RPC of the returns service that records a withdrawal. */
  declare: (
    request: MessageInitShape<typeof DeclareWithdrawalRequestSchema>,
  ) => Promise<DeclareWithdrawalResponse>;
  /** Replaces the running gateway by one with these settings. */
  restart(o?: MailTimes): Promise<void>;
  /** Starts a further gateway on the same database. It gets no events, as the bus in memory has one subscriber. */
  startReplica(): Promise<Mails>;
  /** Publishes events like the webhooks service. */
  publish(...events: readonly Event[]): Promise<void>;
  newShop(...roles: readonly Role[]): Promise<ShopWithMembers>;
  /** Waits until a shop has this many stored mails. */
  stored(shopId: bigint, count: number): Promise<void>;
  /** Waits until all mails of a shop have ended. Returns how, and those that arrived. */
  ended(shopId: bigint, count: number): Promise<EndedMails>;
  /** A metric of this process; 0 when it is absent. */
  metric(name: string, labels?: string): Promise<number>;
  stop(): Promise<void>;
}

export interface MailTimes {
  /** How long a mail waits for further facts; by default not at all. Seconds. */
  readonly gatherS?: string;
  /** Pauses between the tries of a mail; by default two short ones. Milliseconds. */
  readonly pausesMs?: readonly number[];
}

export interface EndedMails {
  readonly rows: readonly {
    readonly ended: string;
    readonly error: string;
    readonly kind: string;
  }[];
  readonly arrived: readonly Email[];
  /** Their recipients, sorted. */
  readonly to: readonly (string | undefined)[];
}

/** Runs the mails of a gateway with a new database, a bus in memory, and a real mail server. */
export async function runMails(): Promise<MailsUnderTest> {
  const [db, server, telemetry] = await Promise.all([
    createTestDatabase('gateway'),
    startMailServer(),
    testTelemetry(),
  ]);
  const { pool } = db;
  let declare: MailsUnderTest['declare'] = async () => create(DeclareWithdrawalResponseSchema);
  const bus = createInProcessBus();
  // A gateway closes its bus at a stop, and this one is for all.
  const shared = { ...bus, close: async () => {} };
  const start = (o: MailTimes = {}, ownBus: EventBus = shared): Promise<Mails> => {
    const config = testSettings(gatewayShape, {
      ...forTargets(() => '127.0.0.1:1'),
      DATABASE_URL: db.url,
      SMTP_URL: `smtp://127.0.0.1:${server.port}`,
      SMTP_TLS: 'none',
      MAIL_FROM: 'returns@example.com',
      MAIL_GATHER_SECONDS: o.gatherS ?? '0',
    });
    const settings = mailSettings(config);
    if (!settings) throw new Error('mails are off');
    return startMails({
      identity,
      logger: silentLogger(),
      telemetry,
      bus: ownBus,
      databaseUrl: db.url,
      settings: { ...config, ...settings },
      publicUrl: 'https://api.example.com',
      hasPortal: true,
      webhooksTarget: '127.0.0.1:1',
      returns: { declareWithdrawal: (request) => declare(request) },
      mailPausesMs: o.pausesMs ?? [1, 1],
    });
  };
  let running = await start();
  let shops = 0;
  return {
    pool,
    server,
    bus,
    mails: () => running,
    get declare() {
      return declare;
    },
    set declare(next) {
      declare = next;
    },
    async restart(o) {
      await running.stop();
      running = await start(o);
    },
    startReplica: () => start({}, { ...shared, subscribe: async () => ({ stop: async () => {} }) }),
    publish: (...events) =>
      signingBus(bus, eventSignatures).publish(eventsTopic('webhooks'), events.map(recordOf)),
    newShop(...roles) {
      shops += 1;
      return newShop(pool, shops, roles);
    },
    async stored(shopId, count) {
      await until(async () => {
        const { rows } = await pool.query('select from mails where shop_id = $1', [shopId]);
        return rows.length === count;
      });
    },
    ended: (shopId, count) => ended({ pool, server }, shopId, count),
    async metric(name, labels) {
      const text = await (await fetch(telemetry.metricsUrl)).text();
      const series = labels === undefined ? name : `${name}{${labels}}`;
      const line = text.split('\n').find((one) => one.startsWith(`${series} `));
      return Number(line?.split(' ').at(-1) ?? 0);
    },
    async stop() {
      await running.stop();
      await bus.close();
      await Promise.all([server.stop(), telemetry.stop(), db.drop()]);
    },
  };
}

async function newShop(
  pool: pg.Pool,
  nth: number,
  roles: readonly Role[],
): Promise<ShopWithMembers> {
  const addressOf = (role: string) => `${role}-${nth}@example.com`;
  const { rows } = await pool.query<{ id: bigint }>(
    `with founder as (insert into users (email) values (gen_random_uuid() || '@example.com') returning id)
     insert into shops (name, currency, founder_id) select $1, 'GBP', id from founder returning id`,
    [`Shop ${nth}`],
  );
  const shopId = rows[0]?.id ?? 0n;
  for (const role of ['owner' as const, ...roles]) {
    await addMember(pool, { shopId, email: addressOf(role), role, by: TEST_AUTHOR });
  }
  return { shopId, addressOf };
}

async function ended(
  { pool, server }: { readonly pool: pg.Pool; readonly server: MailServer },
  shopId: bigint,
  count: number,
): Promise<EndedMails> {
  const rows = await until(async () => {
    const { rows: all } = await pool.query<EndedMails['rows'][number] & { shop: string }>(
      `select m.ended, m.error, m.kind, s.name as shop from mails m join shops s on s.id = m.shop_id
        where m.shop_id = $1 order by m.id`,
      [shopId],
    );
    return all.length === count && all.every((row) => row.ended !== null) && all;
  });
  const parsed = await Promise.all(server.received.map(({ raw }) => PostalMime.parse(raw)));
  const arrived = parsed.filter(({ text }) => text?.includes(`Shop: ${rows[0]?.shop}\n`));
  return { rows, arrived, to: arrived.map((one) => one.to?.[0]?.address).toSorted() };
}
