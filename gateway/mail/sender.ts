import type pg from 'pg';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { actorKindText } from '../../services/platform/actor.ts';
import { addedJitter, createBackoff, equalJitter, retry } from '../../services/platform/backoff.ts';
import type { Logger } from '../../services/platform/log.ts';
import { isOutage } from '../../services/platform/outage.ts';
import { type Loop, type Next, startLoop } from '../../services/platform/worker.ts';
import type { Fact } from './facts.ts';
import type { MailMetrics } from './metrics.ts';
import type { Message, SmtpResult } from './smtp.ts';
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
} from './store.ts';
import { mailText } from './texts.ts';

export interface SenderOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly metrics: Pick<MailMetrics, 'ended'>;
  readonly publicUrl: string;
  /** See `TextContext`. */
  readonly hasPortal: boolean;
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
export function startMailSender(o: SenderOptions): Loop {
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
  if (mail.facts.length === 0) {
    return recordResult(o, mail, { kind: 'retry', error: 'the facts are of a newer release' });
  }
  const recipient = await recipientOf(o.pool, mail);
  if (!recipient) return end(o, mail, { as: 'dropped', error: 'no member of the shop' });
  const { shopName, email: to } = recipient;
  const by = await actorText(o, mail);
  const { publicUrl, hasPortal } = o;
  const text = mailText(mail.facts, { shopName, publicUrl, hasPortal, by });
  const messageId = `${mail.shopId}.${mail.id}@${new URL(publicUrl).hostname}`;
  let isLost = false;
  const result = await o.send({ to, ...text, messageId }, async () => {
    isLost = !(await noteHandedOver(o.pool, mail));
    if (isLost) throw new Error('another process sends the mail');
  });
  return isLost ? undefined : recordResult(o, mail, result);
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

/** The actor of the first fact in words, for people of the shop. */
async function actorText(o: SenderOptions, { facts: [first] }: Mail): Promise<string> {
  if (first?.kind === 'assistant_connected') {
    return (await emailOf(o.pool, first.user_id)) ?? 'a former user';
  }
  return first?.kind === 'secret_revealed' ? describeActor(o, first.by) : '';
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

function kindOf({ facts: [first] }: Mail): Fact['kind'] | 'unknown' {
  return first?.kind ?? 'unknown';
}

/** A mail in logs: no address, no text. */
function about(mail: Mail) {
  return { shop: mail.shopId, mail: mail.id, kind: kindOf(mail), attempts: mail.attempts };
}
