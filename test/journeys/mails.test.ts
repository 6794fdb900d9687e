import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type pg from 'pg';
import type { CaughtMail } from '../../deploy/local/mails.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { type Hook, type HookPartner, startPartner } from '../kit/journeys/hooks.ts';
import { callIn, type Journey, startJourney } from '../kit/journeys/journey.ts';
import { temporaryFolder } from '../kit/postgres/temporary-folder.ts';
import { until } from '../kit/until.ts';

/** A lease of a mail ends after three minutes. Milliseconds. */
const LEASE_MS = 240_000;
const DAY_S = 86_400;
/** A subscription becomes inactive after at least ten failures. */
const FAILURES = 12;

let folder: string;
let journey: Journey;
let partner: HookPartner;
let pool: pg.Pool;
beforeAll(async () => {
  folder = temporaryFolder();
  await start();
  partner = await startPartner(journey, journey.stack.shop);
  partner.receiver.answer = (response) => void response.writeHead(500).end();
}, 120_000);
afterAll(async () => {
  await pool?.end();
  await partner?.stop();
  await journey?.stop();
  await rm(folder, { recursive: true, force: true });
}, 60_000);

async function start(): Promise<void> {
  journey = await startJourney(['--data', folder]);
  pool = createPool(journey.stack.file.database_url, { max: 2 });
}

const advance = (days: number) =>
  journey.stack.control('POST', '/clock/webhooks', { advance_s: days * DAY_S });
const caught = () => journey.stack.control<CaughtMail[]>('GET', '/mails');

/** The addresses of the members who may see the developer settings. */
async function developers(): Promise<string[]> {
  const { rows } = await pool.query<{ email: string }>(
    `select u.email from gateway.memberships m join gateway.users u on u.id = m.user_id
      where m.shop_id = $1 and m.role in ('owner', 'admin', 'developer')`,
    [journey.stack.shop.id],
  );
  return rows.map(({ email }) => email).toSorted();
}

interface StoredMail {
  readonly email: string;
  readonly ended: string | null;
}

async function stored(kind: string): Promise<StoredMail[]> {
  const { rows } = await pool.query<StoredMail>(
    `select u.email, m.ended from gateway.mails m join gateway.users u on u.id = m.user_id
      where m.shop_id = $1 and m.kind = $2`,
    [journey.stack.shop.id, kind],
  );
  return rows;
}

async function subscription(hook: Hook) {
  const { subscriptions } = await journey.services.webhooks.listSubscriptions(
    callIn(journey.stack.shop),
  );
  return subscriptions.find(({ id }) => id === BigInt(hook.id));
}

const recipients = (mails: readonly CaughtMail[], subject: string) =>
  mails.filter((one) => one.subject.includes(subject)).map(({ to }) => to);

test('an endpoint that fails until its subscription is inactive is mailed to each member once, also after SIGKILL', async () => {
  const hook = await partner.subscribe('return', 'return.closed');
  const everybody = await developers();
  expect(everybody.length).toBeGreaterThan(1);
  for (let nth = 0; nth < FAILURES; nth += 1) {
    await journey.services.webhooks.sendTest({
      ...callIn(journey.stack.shop),
      subscriptionId: BigInt(hook.id),
    });
  }
  await until(async () => ((await subscription(hook))?.failures ?? 0) >= FAILURES);

  // Half of the five days. The process dies while the mails are stored and not sent, or are being sent.
  await advance(2.6);
  await until(async () => (await stored('endpoint_failing')).length > 0);
  const early = recipients(await caught(), 'fail');
  await journey.stack.kill();
  await pool.end();
  await journey.stop();
  await start();

  await until(
    async () => (await stored('endpoint_failing')).every(({ ended }) => ended !== null),
    LEASE_MS,
  );
  const mails = await stored('endpoint_failing');
  expect(mails.map(({ email }) => email).toSorted()).toEqual(everybody);
  // Only a mail that was being sent at the kill may be unknown, and then it is not sent again.
  expect(mails.filter(({ ended }) => ended !== 'sent' && ended !== 'unknown')).toEqual([]);
  const late = recipients(await caught(), 'fail');
  const all = [...early, ...late];
  expect(new Set(all).size).toBe(all.length);

  // The rest of the five days. The clock of the killed process is lost.
  await advance(6);
  await until(async () => (await subscription(hook))?.inactiveReason !== '');
  await until(async () => recipients(await caught(), 'are inactive').length === everybody.length);
  expect(recipients(await caught(), 'are inactive').toSorted()).toEqual(everybody);
  // One a day for each address: nobody gets another mail about the failures.
  expect(await stored('endpoint_failing')).toHaveLength(everybody.length);
  const text = (await caught())[0]?.text ?? '';
  expect(text).toContain(`subscription ${hook.id} (topic return, trigger return.closed)`);
  expect(text).toContain('answered 500');
  expect(text).not.toContain(hook.path);
  expect(text).not.toContain(hook.secret);
}, 600_000);

test('the owner is told that a secret was rotated, by the address in the mail', async () => {
  const hook = await partner.subscribe('return', 'return.created');
  await journey.services.webhooks.rotateSecret({
    ...callIn(journey.stack.shop),
    subscriptionId: BigInt(hook.id),
  });
  const owner = journey.stack.file.users.find(({ name }) => name === 'owner');
  const mail = await until(async () => {
    const path = `/mails?to=${encodeURIComponent(owner?.email ?? '')}`;
    const mails = await journey.stack.control<CaughtMail[]>('GET', path);
    return mails.find(({ subject }) => subject.includes('secret'));
  });
  expect(mail.to).toBe(owner?.email);
  expect(mail.text).toContain(`subscription ${hook.id} `);
  expect(mail.text).toContain('By: our service Journey test');
}, 60_000);
