import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { openShop, type TrialShop } from '../ledger/shop.ts';
import { type Row, type RowContext, type RowResult, seconds, someOf } from '../row.ts';
import { type FaultyMailServer, type Hold, startFaultyMailServer } from '../system/mail-server.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { judgeMails, type StoredMail } from './mail-judge.ts';

/** News of a round: secrets that were shown, and endpoints that answered 410. */
const SECRETS = 6;
const ENDPOINTS = 2;
/** Rounds of each kind. */
const ROUNDS = { short: 1, full: 8 };
/** Members who get mails: the owner both kinds, the developer only those about endpoints. */
const MAILS_OF_A_ROUND = SECRETS + 2 * ENDPOINTS;
/** Kafka notices only after the session that a killed gateway is gone. Milliseconds. */
const ROUND_MS = 90_000;
/** Upper limit for the pause from the first stored mail to a kill at an arbitrary moment. Milliseconds. */
const ANY_MOMENT_MS = 300;

/** What fails in a round. A hold kills the gateways while clients wait for a response of the mail server. */
const FAULTS = ['recipient', 'content', 'any moment', 'mail server unavailable'] as const;
type MailFault = (typeof FAULTS)[number];

/** Kills the gateways while they send mails, and takes the mail server away. */
export const mailsRow: Row = {
  name: 'mails',
  fault: 'SIGKILL of both gateways while a mail server takes mails; the mail server is unavailable',
  mustHold:
    'one mail for each event, endpoint, member and day; none arrives twice; none that was not begun is missing',
  budgetMs: { short: 420_000, full: 1_800_000 },
  async run(context) {
    const { system, random, full } = context;
    const server = await startFaultyMailServer();
    const gateways = await Promise.all(
      [2, 3].map((nth) => system.extraGateway(nth, mailSettings(server))),
    );
    const plan = FAULTS.flatMap((fault) =>
      Array.from({ length: full ? ROUNDS.full : ROUNDS.short }, () => fault),
    );
    const shop = await openMailedShop(system, plan.length);
    try {
      await start(gateways);
      const rounds: Rounds = { context, server, gateways, shop, begun: new Set() };
      let inFlight = 0;
      for (const [round, fault] of random.shuffled(plan).entries()) {
        inFlight += await runRound(rounds, { round, fault });
      }
      return await resultOf(rounds, { trials: plan.length, inFlight });
    } finally {
      await Promise.all(gateways.map(({ process }) => process.kill()));
      await server.listen(false);
      await shop.close();
    }
  },
};

interface Rounds {
  readonly context: RowContext;
  readonly server: FaultyMailServer;
  readonly gateways: readonly Member[];
  readonly shop: TrialShop;
  /** Mails that a gateway had begun to hand over when it was killed. */
  readonly begun: Set<string>;
}

const mailSettings = ({ port }: FaultyMailServer) => ({
  SMTP_URL: `smtp://127.0.0.1:${port}`,
  SMTP_TLS: 'none',
  MAIL_FROM: 'Faults <faults@example.com>',
  MAIL_GATHER_SECONDS: '0',
});

/** A shop with an owner, a developer, and the subscriptions of all rounds. */
async function openMailedShop(system: System, rounds: number): Promise<TrialShop> {
  const { rows } = await system.pool.query<{ id: bigint }>(
    `with owner as (insert into gateway.users (email) values (gen_random_uuid() || '@example.com') returning id),
          developer as (insert into gateway.users (email) values (gen_random_uuid() || '@example.com') returning id),
          shop as (insert into gateway.shops (name, currency, founder_id) select 'Mails & Co', 'GBP', id from owner returning id),
          members as (insert into gateway.memberships (shop_id, user_id, role)
                      select shop.id, owner.id, 'owner' from shop, owner
                      union all select shop.id, developer.id, 'developer' from shop, developer)
     select id from shop`,
  );
  const counts = { 'return.created': 1, 'return.closed': ENDPOINTS * rounds };
  return openShop(system, counts, { shopId: Number(rows[0]?.id) });
}

async function start(gateways: readonly Member[]): Promise<void> {
  for (const { process } of gateways) if (!process.isRunning()) process.start();
  await Promise.all(gateways.map((one) => one.untilReady()));
}

/** Causes news, breaks something while they are mailed, and waits until every mail has ended. Returns what was hit. */
async function runRound(
  rounds: Rounds,
  { round, fault }: { readonly round: number; readonly fault: MailFault },
): Promise<number> {
  const { context, server } = rounds;
  const expected = MAILS_OF_A_ROUND * (round + 1);
  const began = nowMs();
  const hit = await breakAt(rounds, { fault, round, expected });
  await untilEnded(rounds, expected);
  context.say(`mails: ${fault}, ${hit} in flight, all ended after ${seconds(nowMs() - began)}`);
  server.hold(undefined);
  return hit;
}

async function breakAt(
  rounds: Rounds,
  o: { readonly fault: MailFault; readonly round: number; readonly expected: number },
): Promise<number> {
  switch (o.fault) {
    case 'mail server unavailable':
      return duringOutage(rounds, o);
    case 'any moment':
      await causeNews(rounds, o.round);
      await waitFor(
        async () => (await storedMails(rounds)).length > o.expected - MAILS_OF_A_ROUND,
        {
          what: 'a mail is stored',
          withinMs: ROUND_MS,
        },
      );
      await sleep(rounds.context.random.between(0, ANY_MOMENT_MS));
      return killAll(rounds);
    case 'recipient':
    case 'content':
      return killWhileHeld(rounds, { at: o.fault, round: o.round });
    default:
      return o.fault satisfies never;
  }
}

async function killWhileHeld(
  rounds: Rounds,
  { at, round }: { readonly at: Hold; readonly round: number },
): Promise<number> {
  const { server } = rounds;
  server.hold(at);
  await causeNews(rounds, round);
  await waitFor(() => server.held() > 0, { what: `a mail waits at its ${at}`, withinMs: ROUND_MS });
  return killAll(rounds);
}

/** The mail server is unavailable until every mail of the round was tried, and the gateways are killed then. */
async function duringOutage(
  rounds: Rounds,
  { round, expected }: { readonly round: number; readonly expected: number },
): Promise<number> {
  const { server } = rounds;
  await server.listen(false);
  await causeNews(rounds, round);
  const tried = async (): Promise<boolean> => {
    const mails = await storedMails(rounds);
    return (
      mails.length === expected && mails.every((one) => one.ended !== null || one.attempts > 0)
    );
  };
  await waitFor(tried, { what: 'every mail was tried', withinMs: ROUND_MS });
  await server.listen(true);
  await killAll(rounds);
  return MAILS_OF_A_ROUND;
}

/** Kills both gateways at once, and starts them again. Returns the number of mails that a gateway had taken. */
async function killAll({ context, server, gateways, shop, begun }: Rounds): Promise<number> {
  // The gateways are frozen during the check, so that no mail is begun that the check does not see.
  await Promise.all(gateways.map(({ process }) => process.freeze()));
  const { rows } = await context.system.pool.query<{ id: bigint; isBegun: boolean }>(
    `select id, handed_over_at is not null as "isBegun" from gateway.mails
      where shop_id = $1 and ended is null and lease_token is not null`,
    [shop.id],
  );
  for (const { id, isBegun } of rows) if (isBegun) begun.add(String(id));
  await Promise.all(gateways.map(({ process }) => process.kill()));
  server.hold(undefined);
  // Instead of waiting for the leases and the pauses, which last for minutes.
  await context.system.pool.query(
    'update gateway.mails set due_at = now() where shop_id = $1 and ended is null',
    [shop.id],
  );
  await start(gateways);
  return rows.length;
}

/** Shows secrets, each twice to the same actor, and lets endpoints answer 410. */
async function causeNews({ context, shop }: Rounds, round: number): Promise<void> {
  const { webhooks } = context.system.services;
  const shopId = BigInt(shop.id);
  const [shown, ...endpoints] = shop.subscriptions;
  const gone = endpoints.slice(round * ENDPOINTS, (round + 1) * ENDPOINTS);
  context.system.sink.behave(
    gone.map(({ path }) => path),
    { kind: 'status', status: 410 },
  );
  const people = Array.from({ length: SECRETS }, (_, nth) => ({
    kind: Actor_Kind.USER,
    id: String(1 + round * SECRETS + nth),
    name: 'Faults',
  }));
  const reveals = [...people, ...people].map((actor) =>
    webhooks.revealSecret({ shopId, actor, subscriptionId: shown?.id ?? 0n }),
  );
  const tests = gone.map(({ id }) =>
    webhooks.sendTest({ shopId, actor: LOCAL_ACTOR, subscriptionId: id }),
  );
  await Promise.all([...reveals, ...tests]);
}

async function untilEnded(rounds: Rounds, expected: number): Promise<void> {
  await waitFor(
    async (see) => {
      const mails = await storedMails(rounds);
      const left = mails.filter(({ ended }) => ended === null).length;
      see(`${mails.length} of ${expected} stored, ${left} left`);
      return mails.length >= expected && left === 0;
    },
    { what: 'every mail has ended', withinMs: ROUND_MS, everyMs: 200 },
  );
}

async function storedMails({ context, shop }: Rounds): Promise<StoredMail[]> {
  const { rows } = await context.system.pool.query<StoredMail>(
    `select id::text, kind, subject, user_id::text as "userId", ended, error, attempts
       from gateway.mails where shop_id = $1 order by id`,
    [shop.id],
  );
  return rows;
}

async function resultOf(
  rounds: Rounds,
  { trials, inFlight }: { readonly trials: number; readonly inFlight: number },
): Promise<RowResult> {
  const { server, shop, begun } = rounds;
  const mails = await storedMails(rounds);
  const expected = MAILS_OF_A_ROUND * trials;
  const arrived = server.arrived.filter((id) => id.startsWith(`${shop.id}.`));
  const judged = judgeMails(mails, { arrived, begun, expected });
  const unknown = mails.filter(({ ended }) => ended === 'unknown').length;
  return {
    trials,
    inFlight,
    lost: judged.lost,
    duplicates: judged.repeated,
    unexplained: 0,
    figures: [
      `${mails.length} mails, ${arrived.length} arrived`,
      `${unknown} unknown of ${begun.size} begun at a kill`,
    ],
    problems: someOf(judged.problems),
    doubts: begun.size > 0 ? [] : ['no kill met a mail that was being handed over'],
  };
}
