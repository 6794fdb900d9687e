import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  test,
} from '@jest/globals';
import pg from 'pg';
import {
  Health,
  HealthCheckResponse_ServingStatus as Serving,
  HealthCheckResponse_ServingStatus as Status,
} from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { lockWaits } from '../../../test/kit/postgres/lock-waits.ts';
import { actor, cart, failure, identity } from '../../../test/kit/services/rpc-bench.ts';
import { silentLogger } from '../../../test/kit/services/telemetry.ts';
import { testSettings } from '../../../test/kit/settings.ts';
import { until } from '../../../test/kit/until.ts';
import { createInProcessBus } from '../bus/in-process.ts';
import { appendEvents } from '../outbox/append.ts';
import { inTransaction, type Queryable } from '../postgres/postgres.ts';
import { currentCaller, forCaller } from '../rpc/caller.ts';
import { createServiceClient } from '../rpc/client.ts';
import type { RunningServer } from '../rpc/server.ts';
import { isUnavailable } from '../values/errors.ts';
import { serviceShape } from './config.ts';
import { databaseProbe } from './health.ts';
import {
  LIVENESS_SERVICE,
  type RunningService,
  type ServiceDefinition,
  type ServiceOptions,
  type ServiceParts,
  startLiveness,
  startService,
} from './service.ts';
import { shutDown } from './shutdown.ts';

describe('service', () => {
  let database: TestDatabase;
  let cleanups: (() => unknown)[];
  beforeEach(async () => {
    database = await createTestDatabase('carts');
    cleanups = [() => database.drop()];
  });
  afterEach(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });

  function options(more: Partial<ServiceOptions> = {}): ServiceOptions {
    const bus = createInProcessBus();
    cleanups.push(() => bus.close());
    return { ...testSettings(serviceShape, { DATABASE_URL: database.url }), bus, ...more };
  }

  const answering: ServiceParts = {
    routes: (router) => void router.service(CartsService, { getCart: () => ({}) }),
  };

  async function start(
    build: ServiceDefinition['build'],
    more: Partial<ServiceOptions> = {},
  ): Promise<RunningService> {
    const definition = { name: 'carts', publishes: true, build };
    const service = await startService(definition, options(more));
    cleanups.push(() => service.stop());
    return service;
  }

  function clientOf(service: RunningService) {
    const made = createServiceClient(CartsService, {
      target: `127.0.0.1:${service.port}`,
      identity,
    });
    cleanups.push(() => made.close());
    return made.client;
  }

  async function health(service: RunningService): Promise<Serving> {
    const baseUrl = `http://127.0.0.1:${service.port}`;
    return (await createClient(Health, createGrpcTransport({ baseUrl })).check({})).status;
  }

  /** As the kubelet checks it. */
  async function readyz({ metricsUrl }: RunningService): Promise<number> {
    return (await fetch(new URL('/readyz', metricsUrl))).status;
  }

  /** On a slow machine the database may seem unavailable. Then the test repeats the call. */
  function untilServing(service: RunningService): Promise<boolean> {
    return until(async () => (await health(service)) === Serving.SERVING);
  }

  async function asMigrator(sql: string): Promise<void> {
    const client = new pg.Client({ connectionString: database.migratorUrl });
    await client.connect();
    await client.query(sql);
    await client.end();
  }

  describe('a running service', () => {
    test('serves calls, health and metrics', async () => {
      const service = await start(() => answering);
      await clientOf(service).getCart(cart);
      await untilServing(service);
      await until(async () => (await readyz(service)) === 200);
      const metrics = await (await fetch(service.metricsUrl)).text();
      expect(metrics).toContain('rpc_server_call_duration_seconds_count');
      expect(metrics).toContain('db_client_connection_count');
    });

    test('is alive without its database, but not ready', async () => {
      const DATABASE_URL = 'postgres://nobody@127.0.0.1:1/none';
      const service = await start(() => answering, { DATABASE_URL, HEALTH_PORT: 0 });
      const baseUrl = `http://127.0.0.1:${service.healthPort}`;
      const liveness = createClient(Health, createGrpcTransport({ baseUrl }));
      expect(await liveness.check({ service: LIVENESS_SERVICE })).toMatchObject({
        status: Serving.SERVING,
      });
      expect(await health(service)).toBe(Serving.NOT_SERVING);
      expect(await readyz(service)).toBe(503);
    });

    test('refuses peers without an identity of the mesh, but not the kubelet at its own port', async () => {
      const service = await start(() => answering, { TRANSPORT_SECURITY: 'mesh', HEALTH_PORT: 0 });
      await expect(clientOf(service).getCart(cart)).rejects.toMatchObject({
        code: Code.Unauthenticated,
        rawMessage: expect.stringContaining('no identity of the mesh'),
      });
      const baseUrl = `http://127.0.0.1:${service.healthPort}`;
      const { status } = await createClient(Health, createGrpcTransport({ baseUrl })).check({});
      expect(status).toBe(Serving.SERVING);
    });

    test('is built with a pool for its own schema and role', async () => {
      let user = '';
      await start(async ({ pool }) => {
        const { rows } = await pool.query<{ user: string }>('select current_user as user');
        user = rows[0]?.user ?? '';
        return answering;
      });
      expect(user).toBe('rms_carts');
    });

    test('does not serve when its database is unavailable', async () => {
      const service = await start(() => answering);
      await untilServing(service);
      const own = await database.pool.connect();
      cleanups.push(() => own.release());
      await asMigrator(
        `revoke connect on database ${new URL(database.url).pathname.slice(1)} from public, rms_carts`,
      );
      await own.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and usename = 'rms_carts' and pid <> pg_backend_pid()`,
      );
      await until(async () => (await health(service)) === Serving.NOT_SERVING);
      expect(await readyz(service)).toBe(503);
    });

    test('serves while all its background work waits for a lock', async () => {
      let background: pg.Pool | undefined;
      const service = await start(({ backgroundPool }) => {
        background = backgroundPool;
        return answering;
      });
      const lock = await database.pool.connect();
      cleanups.push(() => lock.release(true));
      await lock.query('begin');
      await lock.query('select pg_advisory_xact_lock(4711)');
      const size = background?.options.max ?? 0;
      for (let nth = 0; nth < size; nth += 1) {
        background?.query('select pg_advisory_xact_lock(4711)').catch(() => {});
      }
      const allWait = async () => (await lockWaits(database.pool)) === size;
      await until(allWait);
      await untilServing(service);
      expect(await readyz(service)).toBe(200);
      expect(await allWait()).toBe(true);
    });

    test('a port in use is an error of the start, and everything opened is closed again', async () => {
      const first = await start(() => answering);
      let closed = false;
      const close = async () => {
        closed = true;
      };
      const parts = { ...answering, close };
      await expect(start(() => parts, { PORT: first.port })).rejects.toThrow('EADDRINUSE');
      expect(closed).toBe(true);
    });
  });

  describe('a schema that does not fit the code', () => {
    test('leaves the process running without serving or work, until it fits', async () => {
      await asMigrator(
        `insert into carts.schema_migrations (name, sha256, fits) values ('9999_from_the_future.sql', 'x', '999.0.0')`,
      );
      let works = false;
      const service = await start(() => ({
        ...answering,
        workers: async () => {
          works = true;
          return [];
        },
      }));
      expect(await health(service)).toBe(Serving.NOT_SERVING);
      expect(
        isUnavailable(await failure(clientOf(service).createCart({ shopId: 1n, actor }))),
      ).toBe(true);
      expect(works).toBe(false);

      await asMigrator(`delete from carts.schema_migrations where name like '9999%'`);
      await untilServing(service);
      expect(works).toBe(true);
      await clientOf(service).getCart(cart);
    });

    test('does not delay a stop', async () => {
      await asMigrator(`delete from carts.schema_migrations where name = '0001_base.sql'`);
      const service = await start(() => answering);
      expect(await health(service)).toBe(Serving.NOT_SERVING);
      await service.stop();
    });
  });

  describe('stop', () => {
    test('is graceful, and the call in flight finishes', async () => {
      const order: string[] = [];
      let entered: () => void = () => {};
      const inside = new Promise<void>((resolve) => {
        entered = resolve;
      });
      let release: () => void = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      const bus = {
        ...createInProcessBus(),
        close: async () => void order.push('bus closed'),
      };
      const service = await start(
        ({ pool }) => ({
          routes: (router) =>
            void router.service(CartsService, {
              async getCart() {
                entered();
                await held;
                await pool.query('select 1');
                order.push('call finished');
                return {};
              },
            }),
          workers: [
            {
              async stop() {
                order.push('worker stopped');
                release();
              },
            },
          ],
          close: async () => void order.push('parts closed'),
        }),
        { bus },
      );
      const call = clientOf(service).getCart(cart);
      await inside;
      await Promise.all([service.stop(), service.stop(), call]);
      expect(order).toEqual(['worker stopped', 'call finished', 'parts closed', 'bus closed']);
      expect(isUnavailable(await failure(clientOf(service).getCart(cart)))).toBe(true);
    });

    test('publishes events that were committed before it', async () => {
      const bus = createInProcessBus();
      cleanups.push(() => bus.close());
      const seen: string[] = [];
      const subscription = await bus.subscribe({
        group: 'listener',
        topics: ['rms.carts.events.v1'],
        handle: async (records) => void seen.push(...records.map(({ key }) => key)),
      });
      cleanups.push(() => subscription.stop());
      let append: () => Promise<void> = async () => {};
      const service = await start(
        ({ pool }) => {
          append = () =>
            inTransaction(pool, async (tx) => {
              const by = create(ActorSchema, actor);
              const event = { trigger: 'cart.created', shopId: 1n, key: '1:x', actor: by };
              await appendEvents(tx, [event]);
            });
          return answering;
        },
        { bus },
      );
      await append();
      await service.stop();
      expect(seen).toEqual(['1:x']);
    });
  });
});

describe('health', () => {
  /** A database that counts its queries and returns what the test sets. */
  function database(answer: () => Promise<unknown>) {
    let asked = 0;
    const query = () => {
      asked += 1;
      return answer();
    };
    // The code uses only `query`, and only whether it resolves or rejects.
    return { pool: { query } as unknown as Queryable, asked: () => asked };
  }

  test('a database that answers is ready, one that fails is not', async () => {
    expect(await databaseProbe(database(async () => ({ rows: [] })).pool)()).toBe(true);
    const failing = database(() => Promise.reject(new Error('unavailable')));
    expect(await databaseProbe(failing.pool)()).toBe(false);
  });

  test('one pool that answers is enough', async () => {
    const hanging = database(() => new Promise(() => {}));
    const { pool } = database(async () => ({ rows: [] }));
    expect(await databaseProbe(hanging.pool, pool)()).toBe(true);
    expect(await databaseProbe(pool, hanging.pool)()).toBe(true);
  });

  test('a caller that disconnects does not cancel the probe for other callers', async () => {
    const seen: (AbortSignal | undefined)[] = [];
    const { pool } = database(async () => seen.push(currentCaller()));
    const probe = databaseProbe(pool);
    expect(await forCaller(new AbortController().signal, probe)).toBe(true);
    expect(seen).toEqual([undefined]);
  });

  test('many probes share one query', async () => {
    // All probes start at the same time, however long this takes.
    jest.useFakeTimers();
    try {
      const { pool, asked } = database(async () => ({ rows: [] }));
      const probe = databaseProbe(pool);
      await Promise.all(Array.from({ length: 50 }, probe));
      await probe();
      expect(asked()).toBe(1);
    } finally {
      jest.useRealTimers();
    }
  });

  test('a database that hangs is not ready after two seconds', async () => {
    jest.useFakeTimers();
    try {
      const hanging = database(() => new Promise(() => {}));
      const ready = databaseProbe(hanging.pool)();
      await jest.advanceTimersByTimeAsync(2_000);
      expect(await ready).toBe(false);
    } finally {
      jest.useRealTimers();
    }
  });

  test('a check, which needs no token, cannot be large', async () => {
    const server = await startLiveness({ port: 0 });
    const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
    const check = createClient(Health, transport).check({ service: 'x'.repeat(5_000) });
    const error = await check.catch((thrown: unknown) => ConnectError.from(thrown));
    expect(error).toMatchObject({ code: Code.ResourceExhausted });
    await server.stop();
  });
});

describe('liveness', () => {
  let server: RunningServer;
  beforeAll(async () => {
    server = await startLiveness({ port: 0 });
  });
  afterAll(() => server.stop());

  const check = (service: string) => {
    const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
    return createClient(Health, transport).check({ service });
  };

  test('is SERVING, without a token', async () => {
    expect(await check(LIVENESS_SERVICE)).toMatchObject({ status: Status.SERVING });
  });

  test('knows no other service', async () => {
    const error = ConnectError.from(await check('rms.returns.v1.ReturnsService').catch((e) => e));
    expect(error.code).toBe(Code.NotFound);
  });
});

test('later steps run after a failed one', async () => {
  const done: string[] = [];
  await shutDown(silentLogger(), [
    async () => {
      done.push('first');
      throw new Error('no');
    },
    () => {
      throw new Error('no');
    },
    async () => void done.push('last'),
  ]);
  expect(done).toEqual(['first', 'last']);
});
