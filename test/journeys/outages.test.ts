import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { OPERATIONS } from '../../services/contract/operations.ts';
import type { Sent } from '../kit/gateway/rest-client.ts';
import {
  expectError,
  MESSAGE,
  pathIn,
  requestOf,
  SEGMENTS,
} from '../kit/journeys/expected-errors.ts';
import { firstOf, journeyForTests, untilState } from '../kit/journeys/journey.ts';
import { postgresOf, signalAll } from '../kit/postgres/postgres-processes.ts';
import type { Ref } from '../kit/stack.ts';
import { until } from '../kit/until.ts';

/** Longest response time while the database hangs: the time limits of the key's look-up and of a call. Milliseconds. */
const ANSWER_MS = 20_000;
const HANG_MS = 6_000;
/** Maximum time from the return of the database until everything works. Milliseconds. */
const HEALTHY_MS = 10_000;

/** Time limit for the recovery of a killed database on a busy machine. Milliseconds. */
const RESTART_MS = 60_000;
/** Number of kills. More than the minimum if no request fell into the outage, which lasts less than a second. */
const KILLS = { least: 2, most: 8 };

const journey = journeyForTests();

interface Answer {
  readonly what: string;
  readonly status: number;
  readonly retryAfter: string;
  readonly ms: number;
}

/** One request of each kind, reads and writes of all services. Each may be repeated. */
function requestsFor(ref: Ref): Sent[] {
  const { destinations } = journey.stack.shop.fixtures;
  const path = '/api/2026-10';
  return [
    { path: `${path}/warehouse/return/details?return_id=${ref.id}` },
    { path: `${path}/webhooks` },
    { method: 'POST', path: `${path}/cart`, json: { cart: [1] } },
    { method: 'PUT', path: `${path}/destinations/${destinations.linked}`, json: { name: 'North' } },
    {
      method: 'POST',
      path: `${path}/dispositioning/assess`,
      json: { items: [{ line_item_id: ref.line_item_ids[0], note: 'as new' }] },
    },
    { method: 'POST', path: `${path}/warehouse/return/${ref.id}/process` },
  ];
}

async function answerOf(sent: Sent): Promise<Answer> {
  const started = performance.now();
  const { status, headers } = await journey.send(sent);
  const what = `${sent.method ?? 'GET'} ${sent.path}`;
  const ms = performance.now() - started;
  return { what, status, retryAfter: String(headers['retry-after']), ms };
}

/** Sends one round of concurrent requests after another, until it is stopped. */
function keepRequesting(refs: readonly Ref[]) {
  const answers: Answer[] = [];
  let asking = true;
  const ask = async () => {
    for (let at = 0; asking; at += 1) {
      const ref = refs[at % refs.length];
      if (!ref) throw new Error('there is no return to request');
      answers.push(...(await Promise.all(requestsFor(ref).map(answerOf))));
      await sleep(50);
    }
  };
  const asked = ask();
  return {
    answers,
    async end() {
      asking = false;
      await asked;
    },
  };
}

/** Responses that are not allowed: other than success, or 503 with a whole number of seconds. */
function faultsOf(answers: readonly Answer[]): Answer[] {
  return answers.filter(({ status, retryAfter, ms }) => {
    if (ms > ANSWER_MS) return true;
    if (status === 503) return !/^[1-9]\d*$/.test(retryAfter);
    return status !== 200;
  });
}

async function untilHealthy(refs: readonly Ref[]): Promise<void> {
  await until(async () => {
    const answers = await Promise.all(refs.flatMap(requestsFor).map(answerOf));
    return answers.every(({ status }) => status === 200);
  }, HEALTHY_MS);
}

/** Waits until the server that the stack started in place of the killed one accepts connections. */
async function untilAnswering(killed: number): Promise<void> {
  await until(async () => {
    const [server] = await postgresOf(journey.stack.file.pid).catch(() => [killed]);
    return server !== killed && (await connects());
  }, RESTART_MS);
}

async function connects(): Promise<boolean> {
  const client = new pg.Client({ connectionString: journey.stack.file.database_url });
  client.on('error', () => {});
  return client.connect().then(
    () => client.end().then(() => true),
    () => false,
  );
}

const fresh = (count: number) =>
  Promise.all(Array.from({ length: count }, () => journey.stack.fixture('open')));

/** Asserts that each return is closed and was refunded once. */
async function expectRefundedOnce(refs: readonly Ref[]): Promise<void> {
  for (const { id } of refs) {
    await untilState(journey, id, 'closed');
    const ledger = await journey.stack.control('GET', `/commerce/orders?return_id=${id}`);
    expect(ledger).toMatchObject({ orders: [], gift_cards: [], refunds: [{ currency: 'GBP' }] });
  }
}

describe('while a service is stopped', () => {
  const NEEDS = {
    returns: [
      'getPolicy',
      'listReturns',
      ...['getReturnDetails', 'processReturn', 'createFraudReport', 'assessDispositions'],
      ...['listEffects', 'cancelReturn', 'getReturnTimeline'],
      ...['getEligibility', 'submitReturn'],
      ...['recordLabel', 'updateLabel', 'recordGiftCard', 'gradeItems'],
    ],
    dispositions: ['assessDispositions', 'gradeItems'],
    destinations: ['listDestinations', 'getDestination', 'updateDestination'],
    fraud: ['createFraudReport'],
    carts: ['createCart', 'getCart'],
    webhooks: OPERATIONS.filter(({ tag }) => tag === 'Webhooks').map(({ id }) => id),
  };
  const UNAVAILABLE = {
    status: 503,
    body: MESSAGE,
    code: 'SERVICE_UNAVAILABLE',
    headers: { 'retry-after': expect.stringMatching(/^[1-9]\d*$/) },
  };

  test.each(Object.entries(NEEDS))('%s: 503 with Retry-After', async (service, needing) => {
    await journey.stack.control('POST', `/services/${service}/stop`);
    for (const operation of OPERATIONS.filter(({ id }) => needing.includes(id))) {
      for (const [segment, version] of SEGMENTS) {
        const sent = requestOf(operation, 1);
        const answer = await journey.send({ ...sent, path: pathIn(segment, sent.path) });
        expectError(answer, version, UNAVAILABLE);
        expect(answer.text).not.toMatch(/ECONN|127\.0\.0\.1|grpc/i);
      }
    }
    await journey.stack.control('POST', `/services/${service}/start`);
  });

  test('works again soon after it is back', async () => {
    const { id } = firstOf(journey.stack.shop, 'open');
    const calls: Sent[] = [
      { path: `/api/v1/warehouse/return/details?return_id=${id}` },
      { path: '/api/v1/cart', json: { cart: [1] } },
      { path: '/api/v1/webhooks' },
    ];
    for (const sent of calls)
      await until(async (see) => see((await journey.send(sent)).status) === 200);
  });
});

describe('while PostgreSQL is unavailable', () => {
  test('after a kill: 503 with Retry-After, never 500, then everything works as before', async () => {
    const refs = await fresh(4);
    const load = keepRequesting(refs);
    const is503 = ({ status }: Answer): boolean => status === 503;
    const isEnough = (kills: number): boolean => kills >= KILLS.least && load.answers.some(is503);
    for (let kills = 0; !isEnough(kills) && kills < KILLS.most; kills += 1) {
      await until(() => load.answers.at(-1)?.status === 200);
      const [server = 0] = await postgresOf(journey.stack.file.pid);
      process.kill(server, 'SIGKILL');
      await untilAnswering(server);
      await untilHealthy(refs);
    }
    await load.end();
    expect(faultsOf(load.answers)).toEqual([]);
    expect(load.answers.some(is503)).toBe(true);
    await expectRefundedOnce(refs);
  });

  test('while it is frozen: every response arrives in time, then everything works again', async () => {
    const refs = await fresh(3);
    const load = keepRequesting(refs);
    await until(() => load.answers.at(-1)?.status === 200);
    const pids = await postgresOf(journey.stack.file.pid);
    signalAll(pids, 'SIGSTOP');
    try {
      await sleep(HANG_MS);
    } finally {
      signalAll(pids, 'SIGCONT');
    }
    await untilHealthy(refs);
    await load.end();
    expect(faultsOf(load.answers)).toEqual([]);
    await expectRefundedOnce(refs);
  });
});
