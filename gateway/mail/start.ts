import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { type EventBus, eventsTopic } from '../../services/platform/bus/event-bus.ts';
import { signaturesFromConfig } from '../../services/platform/bus/event-signature.ts';
import { measuredBus } from '../../services/platform/bus/measured-bus.ts';
import { signedBus } from '../../services/platform/bus/signed-bus.ts';
import {
  type ConsumeOptions,
  consumeEvents,
  rememberDays,
} from '../../services/platform/consumer/consumer.ts';
import { kafkaBusFromConfig } from '../../services/platform/kafka/kafka.ts';
import { startSweep } from '../../services/platform/outbox/sweep.ts';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import { measurePools } from '../../services/platform/postgres/pools.ts';
import { createPool, inTransaction } from '../../services/platform/postgres/postgres.ts';
import { startBackground } from '../../services/platform/process/background.ts';
import {
  addedJitter,
  createBackoff,
  equalJitter,
  retry,
} from '../../services/platform/process/backoff.ts';
import type { processShape, Settings } from '../../services/platform/process/config.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { within } from '../../services/platform/process/within.ts';
import {
  type Loop,
  type Next,
  startLoop,
  type Worker,
} from '../../services/platform/process/worker.ts';
import type { ServiceIdentity } from '../../services/platform/security/identity.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import type { Telemetry } from '../../services/platform/telemetry/telemetry.ts';
import { actorKindText } from '../../services/platform/values/actor.ts';
import type { Services } from '../services.ts';
import { handOverLink, type InvitationMails } from '../tenancy/invitations.ts';
import { type MailAdder, mailAdder } from './add-mails.ts';
import type { MailSettings } from './config.ts';
import { type Fact, factOfEvent } from './facts.ts';
import { addInvitationMail, INVITATION_KIND, invitationMail } from './invitation.ts';
import { type MailMetrics, mailMetrics } from './metrics.ts';
import {
  createShopperMails,
  recordDeclared,
  type ShopperMails,
  type StoredDeclaration,
  WITHDRAWAL_KIND,
  withdrawalMail,
} from './shopper-mails.ts';
import { type Message, type SmtpResult, sendMail } from './smtp.ts';
import {
  claimMails,
  type Ending,
  emailOf,
  endMail,
  LEASE_MS,
  type Mail,
  noteHandedOver,
  recipientOf,
  retryMail,
  shopNameOf,
} from './store.ts';
import { mailText } from './texts.ts';

interface MailOptions {
  readonly settings: MailSettings & Settings<typeof processShape>;
  readonly databaseUrl: string;
  readonly publicUrl: string;
  /** See `TextContext`. */
  readonly hasPortal: boolean;
  /** gRPC name of the webhooks service. */
  readonly webhooksTarget: string;
  /** Records the withdrawals of shoppers. */
  readonly returns: Pick<Services['returns'], 'declareWithdrawal'>;
  readonly identity: ServiceIdentity;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Kafka by default. The stop closes it. */
  readonly bus?: EventBus;
  /** See {@link startMailSender} (tests). Milliseconds. */
  readonly mailPausesMs?: readonly number[];
}

/** The mails to members of shops, to people who are invited, and to shoppers. */
export interface Mails extends MailAdder, InvitationMails, ShopperMails {
  /** Finishes the mails that are being sent, within 20 s. Other processes send mails that `add` stores after that. */
  stop(): Promise<void>;
}

/** Connections for mails: the consumer, the sweep, and the mails that are being sent. */
const CONNECTIONS = 4;
const STATEMENT_TIMEOUT_MS = deadline(5_000);
const CLOSE_MS = 5_000;
const DAY_MS = 24 * 60 * 60 * 1_000;

/**
 * Starts to consume the events of the webhooks service, and to send mails about them. Without Kafka, the database or the
 * mail server it waits, and continues when they are available again.
 */
export async function startMails(o: MailOptions): Promise<Mails> {
  const { settings, logger, telemetry, identity } = o;
  const { RETENTION_DAYS: retentionDays, smtp } = settings;
  const pool = createPool(o.databaseUrl, {
    applicationName: 'gateway-mails',
    max: CONNECTIONS,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  });
  const bus = signedBus({
    bus: o.bus ?? measuredBus(kafkaBusFromConfig(settings), telemetry),
    signatures: signaturesFromConfig(settings),
    rememberMs: rememberDays(retentionDays) * DAY_MS,
    meter: telemetry.meter,
    logger,
  });
  measurePools(telemetry, { mails: pool });
  const metrics = mailMetrics(telemetry.meter, pool);
  let sender: Loop | undefined;
  const gatherMs = settings.MAIL_GATHER_SECONDS * 1_000;
  const add = mailAdder({ gatherMs, metrics, wake: (ms) => sender?.wake(ms) });
  const close = async (): Promise<void> => {
    metrics.stop();
    await bus.close();
    await within(CLOSE_MS, pool.end());
  };
  const common = { pool, bus, logger, telemetry, retentionDays };
  const start = async () => {
    const consumer = await startMailConsumer({ ...common, add });
    const runtime = { ...common, backgroundPool: pool, identity };
    const source = { group: GROUP, source: 'webhooks', target: o.webhooksTarget };
    sender = startMailSender({
      pool,
      logger,
      metrics,
      publicUrl: o.publicUrl,
      hasPortal: o.hasPortal,
      returns: o.returns,
      send: (message, handOver) => sendMail(smtp, message, handOver),
      ...(o.mailPausesMs && { pausesMs: o.mailPausesMs }),
    });
    return [consumer, startSweep(runtime, source), sender];
  };
  try {
    const background = await startBackground({
      ...common,
      name: 'gateway',
      publishes: false,
      workers: start,
    });
    return {
      add,
      invite: (tx, of) => addInvitationMail(tx, of, () => sender?.wake(0)),
      ...createShopperMails(pool, () => sender?.wake(0)),
      async stop() {
        await background.stopWorkers();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The consumer group of the gateways. */
const GROUP = 'gateway';

/**
 * Consumes the events of the webhooks service. One transaction stores the ids of the events and the mails about them.
 *
 * @param o.add see {@link MailAdder}.
 */
export function startMailConsumer(
  o: Pick<ConsumeOptions, 'bus' | 'pool' | 'logger' | 'telemetry' | 'retentionDays'> & MailAdder,
): Promise<Worker> {
  return consumeEvents({
    ...o,
    group: GROUP,
    topics: [eventsTopic('webhooks')],
    handle: (tx, events) =>
      o.add(
        tx,
        events.flatMap((event) => factOfEvent(event) ?? []),
      ),
  });
}

interface SenderOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly metrics: Pick<MailMetrics, 'ended'>;
  readonly publicUrl: string;
  /** See `TextContext`. */
  readonly hasPortal: boolean;
  readonly returns: MailOptions['returns'];
  /** See `sendMail`. Resolves well before a lease expires. */
  readonly send: (message: Message, handOver: () => Promise<void>) => Promise<SmtpResult>;
  /** Pauses after each try without a result; after the last one the mail has failed. Milliseconds. */
  readonly pausesMs?: readonly number[];
}

/** How often a process looks for due mails. Milliseconds. */
const EVERY_MS = 10_000;
/** Mails that one step sends at the same time. */
const PARALLEL = 5;
const MINUTE_MS = 60_000;
/**
 * The pauses between tries, about two days together. Greylisting ends after minutes; an outage of a mail server may
 * last for a day.
 */
const PAUSES_MS = [1, 5, 15, 60, 180, 360, 720, 1_440].map((minutes) => minutes * MINUTE_MS);

/** A result is written for half of the lease; sending used the rest. Then another process ends the mail as unknown. */
const RECORD_BACKOFF = createBackoff({ firstMs: 100, longestMs: 2_000, jitter: equalJitter });

/**
 * Sends due mails, each at most once: a mail whose content a server may have got is not sent again. Replicas share the
 * work by leases. A mail that cannot be sent now is tried again with growing pauses.
 */
function startMailSender(o: SenderOptions): Loop {
  return startLoop({
    name: 'mails',
    logger: o.logger,
    step: () => sendDueMails(o),
  });
}

/** Takes some due mails, sends them, and records the results. Returns when there may be more. */
export async function sendDueMails(o: SenderOptions): Promise<Next> {
  const mails = await claimMails(o.pool, PARALLEL);
  const sent = await Promise.allSettled(mails.map((mail) => sendOne(o, mail)));
  const failed = sent.find((one) => one.status === 'rejected');
  if (failed) throw failed.reason;
  if (mails.length === PARALLEL) return 'again';
  const pausesMs = sent.map((one) => (one.status === 'fulfilled' ? one.value : undefined));
  return Math.min(EVERY_MS, ...pausesMs.filter((pauseMs) => pauseMs !== undefined));
}

/** Returns the pause until the next try; undefined when the mail has ended. Milliseconds. */
async function sendOne(o: SenderOptions, mail: Mail): Promise<number | undefined> {
  if (mail.wasHandedOver) {
    return end(o, mail, { as: 'unknown', error: 'the process died while a server took the mail' });
  }
  if (mail.invitationId !== null) return sendInvitation(o, mail, mail.invitationId);
  if (mail.declaration) return sendAcknowledgement(o, mail, mail.declaration);
  if (mail.facts.length === 0) {
    return recordResult(o, mail, { kind: 'retry', error: 'the facts are of a newer release' });
  }
  const recipient = await recipientOf(o.pool, mail);
  if (!recipient) return end(o, mail, { as: 'dropped', error: 'no member of the shop' });
  const { shopName, email: to } = recipient;
  const by = await actorText(o, mail);
  const { publicUrl, hasPortal } = o;
  const who = await personText(o, mail);
  const text = mailText(mail.facts, { shopName, publicUrl, hasPortal, by, who });
  return transmit(o, mail, { to, ...text });
}

/**
 * Sends the mail of an invitation. Its link is stored in the transaction that notes that a server begins to take it: so a
 * process that is too late makes no link, and a mail that was sent has the link that works.
 */
async function sendInvitation(
  o: SenderOptions,
  mail: Mail,
  invitationId: bigint,
): Promise<number | undefined> {
  const of = { shopId: mail.shopId, invitationId };
  const message = await invitationMail(o.pool, of, o.publicUrl);
  if (!message) return end(o, mail, { as: 'dropped', error: NOT_OPEN });
  const { token, ...content } = message;
  let handedOver: 'yes' | 'lost' | 'ended' = 'yes';
  const result = await o.send({ ...content, messageId: messageIdOf(o, mail) }, async () => {
    handedOver = await inTransaction(o.pool, async (tx) => {
      if (!(await noteHandedOver(tx, mail))) return 'lost';
      return (await handOverLink(tx, of, token)) ? 'yes' : 'ended';
    });
    if (handedOver !== 'yes') throw new Error('nobody may send the mail now');
  });
  return endInvitationMail(o, mail, { handedOver, result });
}

/** Sends the acknowledgement of a withdrawal, after the withdrawal is recorded. */
async function sendAcknowledgement(
  o: SenderOptions,
  mail: Mail,
  declaration: StoredDeclaration,
): Promise<number | undefined> {
  const { shopId } = mail;
  const declaredAt = await recordDeclared(o.returns, shopId, declaration).catch(
    (error: unknown) => ({ error: error instanceof Error ? error.message : String(error) }),
  );
  if (!(declaredAt instanceof Date)) {
    return recordResult(o, mail, { kind: 'retry', error: `not recorded: ${declaredAt.error}` });
  }
  const shopName = await shopNameOf(o.pool, shopId);
  const message = withdrawalMail(declaration, { shopName, declaredAt });
  return transmit(o, mail, message);
}

/** Sends a mail whose content is fixed. */
async function transmit(
  o: SenderOptions,
  mail: Mail,
  message: Omit<Message, 'messageId'>,
): Promise<number | undefined> {
  let isLost = false;
  const result = await o.send({ ...message, messageId: messageIdOf(o, mail) }, async () => {
    isLost = !(await noteHandedOver(o.pool, mail));
    if (isLost) throw new Error('another process sends the mail');
  });
  return isLost ? undefined : recordResult(o, mail, result);
}

const NOT_OPEN = 'nobody can accept the invitation';

async function endInvitationMail(
  o: SenderOptions,
  mail: Mail,
  { handedOver, result }: { handedOver: 'yes' | 'lost' | 'ended'; result: SmtpResult },
): Promise<number | undefined> {
  if (handedOver === 'lost') return undefined;
  if (handedOver === 'ended') return end(o, mail, { as: 'dropped', error: NOT_OPEN });
  return recordResult(o, mail, result);
}

/** The same for each try of a mail. */
function messageIdOf({ publicUrl }: SenderOptions, { shopId, id }: Mail): string {
  return `${shopId}.${id}@${new URL(publicUrl).hostname}`;
}

/** Returns the pause until the next try; undefined when the mail has ended. Milliseconds. */
async function recordResult(
  o: SenderOptions,
  mail: Mail,
  result: SmtpResult,
): Promise<number | undefined> {
  switch (result.kind) {
    case 'sent':
      return end(o, mail, { as: 'sent' });
    case 'final':
      return end(o, mail, { as: 'failed', error: result.error });
    case 'unknown':
      return end(o, mail, { as: 'unknown', error: result.error });
    case 'retry': {
      const { error } = result;
      const shortestMs = (o.pausesMs ?? PAUSES_MS)[mail.attempts];
      if (shortestMs === undefined) return end(o, mail, { as: 'failed', error });
      const pauseMs = Math.ceil(addedJitter(shortestMs));
      o.logger.warn({ ...about(mail), error, pauseMs }, 'mail not sent, retrying');
      await record(() => retryMail(o.pool, mail, { pauseMs, error }));
      return pauseMs;
    }
    default:
      throw new Error(`unknown result ${result satisfies never}`);
  }
}

async function end(
  o: SenderOptions,
  mail: Mail,
  { as, error = '' }: { readonly as: Ending; readonly error?: string },
): Promise<undefined> {
  // False: another process has ended the mail, and has counted it.
  if (!(await record(() => endMail(o.pool, mail, { as, error })))) return;
  o.metrics.ended(kindOf(mail), as);
  if (as === 'failed') o.logger.error({ ...about(mail), error }, 'mail failed');
  if (as === 'unknown') o.logger.error({ ...about(mail), error }, 'mail may not have been sent');
  if (as === 'dropped') o.logger.info({ ...about(mail), error }, 'mail dropped');
}

/** Repeats a write during an outage of the database, at most for half of the lease. */
function record(write: () => Promise<boolean>): Promise<boolean> {
  const until = performance.now() + LEASE_MS / 2;
  const isTransient = (error: unknown) => isOutage(error) && performance.now() < until;
  return retry(write, { backoff: RECORD_BACKOFF, isTransient });
}

/** The kinds of facts whose `user_id` did it. */
const BY_USER: ReadonlySet<Fact['kind']> = new Set([
  'assistant_connected',
  'app_installed',
  'api_key_made',
]);

/** The actor of the first fact in words, for people of the shop. */
async function actorText(o: SenderOptions, { facts: [first] }: Mail): Promise<string> {
  if (first && BY_USER.has(first.kind) && 'user_id' in first) {
    return (await emailOf(o.pool, first.user_id)) ?? 'a former user';
  }
  if (first?.kind === 'owner_added') {
    return (await emailOf(o.pool, first.by_user_id)) ?? 'a former user';
  }
  return first?.kind === 'secret_revealed' ? describeActor(o, first.by) : '';
}

/** The person whom the first fact is about. */
async function personText(o: SenderOptions, { facts: [first] }: Mail): Promise<string> {
  if (first?.kind !== 'owner_added') return '';
  return (await emailOf(o.pool, first.user_id)) ?? 'A former user';
}

async function describeActor(
  o: SenderOptions,
  { kind, id, name }: { kind: string; id: string; name: string },
): Promise<string> {
  switch (kind) {
    case actorKindText.toText(Actor_Kind.USER):
      return (await emailOf(o.pool, id)) ?? (name || `the user ${id}`);
    case actorKindText.toText(Actor_Kind.API_KEY):
      return `the API key ${id}${name === '' ? '' : ` (${name})`}`;
    case actorKindText.toText(Actor_Kind.PARTNER_APP):
      return `the app ${id}${name === '' ? '' : ` (${name})`}`;
    default:
      return `our service ${name || id}`;
  }
}

function kindOf({ facts: [first], invitationId, declaration }: Mail): string {
  if (declaration) return WITHDRAWAL_KIND;
  return invitationId === null ? (first?.kind ?? 'unknown') : INVITATION_KIND;
}

/** A mail in logs: no address, no text. */
function about(mail: Mail) {
  return { shop: mail.shopId, mail: mail.id, kind: kindOf(mail), attempts: mail.attempts };
}
