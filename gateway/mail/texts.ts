import type { Fact, FactOf } from './facts.ts';
import { mailPages } from './portal-pages.ts';

/** The values that the texts contain, besides the facts. */
export interface TextContext {
  readonly shopName: string;
  /** Public address of the API. Mails link to its documentation and its portal. */
  readonly publicUrl: string;
  /** Whether members can sign in to the portal. Else mails have no links to its pages. */
  readonly hasPortal: boolean;
  /** The actor of a fact in words, such as `the API key k3v9x0aabbcc`. */
  readonly by: string;
}

export interface MailText {
  readonly subject: string;
  readonly text: string;
}

/**
 * Returns the subject and the plain text of a mail. Contains no secret, no path of an address, and nothing that a
 * receiver or a shopper has written.
 *
 * @param facts at least one, all of one kind; the first decides the subject.
 */
export function mailText(facts: readonly Fact[], c: TextContext): MailText {
  const [first, ...more] = facts;
  if (!first) throw new Error('a mail has a fact');
  const shop = plain(c.shopName, 80);
  const { subject, lines } = partsOf(first, facts, { ...c, shopName: shop });
  const links = c.hasPortal ? linkLines([first, ...more], c.publicUrl, shop) : [];
  const footer = ['', `Shop: ${shop}`, `Documentation: ${c.publicUrl}/docs`, REASON[first.kind]];
  return { subject: plain(subject, 150), text: `${[...lines, ...links, ...footer].join('\n')}\n` };
}

/** The session of a member of several shops shows the shop that was used last. */
function linkLines(facts: readonly [Fact, ...Fact[]], publicUrl: string, shop: string): string[] {
  const links = mailPages(facts).map(({ title, path }) => `- ${title}: ${publicUrl}${path}`);
  return ['', `In the portal (if you have several shops, choose ${shop} there):`, ...links];
}

interface Parts {
  readonly subject: string;
  readonly lines: readonly string[];
}

function partsOf(first: Fact, facts: readonly Fact[], c: TextContext): Parts {
  switch (first.kind) {
    case 'endpoint_failing':
      return failing(first, ofKind(facts, first.kind), c);
    case 'endpoint_disabled':
      return deactivated(first, ofKind(facts, first.kind), c);
    case 'endpoint_exhausted':
      return exhausted(first, ofKind(facts, first.kind), c);
    case 'secret_revealed':
      return revealed(first, c);
    case 'assistant_connected':
      return connected(first, c);
    default:
      throw new Error(`there is no text for ${first satisfies never}`);
  }
}

function failing(
  first: FactOf<'endpoint_failing'>,
  all: readonly (typeof first)[],
  c: TextContext,
): Parts {
  const host = plain(first.subscription.host, 255);
  return {
    subject: `[${c.shopName}] Webhooks to ${host} fail`,
    lines: [
      `All webhook deliveries to ${host} have failed since ${timeText(first.failing_since)}.`,
      'Every attempt since then got an error. If this continues, the subscriptions below become inactive:',
      '',
      ...all.map(
        (one) =>
          `- ${subscriptionText(one.subscription)}: ${one.failures} failed attempts, last error "${plain(one.last_error, 200)}", inactive from ${timeText(one.disables_at)}`,
      ),
      '',
      'What to do:',
      `1. Make ${host} answer each delivery with a 2xx status within 15 seconds.`,
      '2. Send a test event, and look at the delivery log.',
      'Deliveries that failed are repeated for about three days. Afterwards you can replay them.',
    ],
  };
}

function deactivated(
  first: FactOf<'endpoint_disabled'>,
  all: readonly (typeof first)[],
  c: TextContext,
): Parts {
  const host = plain(first.subscription.host, 255);
  const why =
    first.reason === 'gone'
      ? `${host} answered 410 Gone, which says that it expects no more deliveries.`
      : `All attempts of five days failed, since ${timeText(first.failing_since)}.`;
  return {
    subject: `[${c.shopName}] Webhooks to ${host} are inactive`,
    lines: [
      `We made webhook subscriptions to ${host} inactive. ${why}`,
      '',
      ...all.map(
        (one) =>
          `- ${subscriptionText(one.subscription)}: since ${timeText(one.at)}, last error "${plain(one.last_error, 200)}"`,
      ),
      '',
      'New events are not delivered to them. Deliveries that were waiting are held for 30 days.',
      '',
      'What to do:',
      `1. Make ${host} answer each delivery with a 2xx status within 15 seconds.`,
      '2. Set the subscription to active (PUT /webhooks/{id}). What was held is then sent.',
      '3. If you missed events, start a replay or a backfill.',
      'If you no longer need the subscription, delete it.',
    ],
  };
}

function exhausted(
  first: FactOf<'endpoint_exhausted'>,
  all: readonly (typeof first)[],
  c: TextContext,
): Parts {
  const host = plain(first.subscription.host, 255);
  return {
    subject: `[${c.shopName}] Webhook deliveries to ${host} were given up`,
    lines: [
      `All attempts of some webhook deliveries to ${host} failed. We do not repeat these deliveries any more:`,
      '',
      ...all.map(
        (one) =>
          `- ${subscriptionText(one.subscription)}: ${one.deliveries} until ${timeText(one.at)}, last error "${plain(one.last_error, 200)}"`,
      ),
      '',
      'What to do:',
      `1. Make ${host} answer each delivery with a 2xx status within 15 seconds.`,
      '2. Replay the deliveries. The delivery log keeps them for 30 days.',
      'More deliveries may follow. We send at most one such mail a day for each address.',
    ],
  };
}

function revealed(first: FactOf<'secret_revealed'>, c: TextContext): Parts {
  const host = plain(first.subscription.host, 255);
  const what = first.rotated ? 'replaced by a new one' : 'shown';
  return {
    subject: `[${c.shopName}] A webhook signing secret was ${what}`,
    lines: [
      `The signing secret of ${subscriptionText(first.subscription)} to ${host} was ${what}.`,
      '',
      `When: ${timeText(first.at)}`,
      `By: ${plain(c.by, 400)}`,
      '',
      'If you expected this, you need not do anything.',
      'If not: rotate the secret, and check the API keys, apps and members of the shop. Who has the secret can send',
      'webhooks to you that look like ours.',
    ],
  };
}

function connected(first: FactOf<'assistant_connected'>, c: TextContext): Parts {
  return {
    subject: `[${c.shopName}] An assistant was connected`,
    lines: [
      `An assistant was connected to the shop ${c.shopName}. It can do at most what the person behind it may do.`,
      '',
      `When: ${timeText(first.at)}`,
      `By: ${plain(c.by, 400)}`,
      `Assistant: ${plain(first.app || first.client_id, 200)}`,
      '',
      'If you expected this, you need not do anything.',
      'If not: disconnect the assistant in the portal or with the tool disconnect_assistant, and check the members of the shop.',
    ],
  };
}

const DEVELOPER =
  'You get this mail because you may see or manage the developer settings of this shop.';
const OWNER = 'You get this mail because you are an owner of this shop.';

const REASON: Readonly<Record<Fact['kind'], string>> = {
  endpoint_failing: DEVELOPER,
  endpoint_disabled: DEVELOPER,
  endpoint_exhausted: DEVELOPER,
  secret_revealed: OWNER,
  assistant_connected: OWNER,
};

function subscriptionText(of: { id: string; topic: string; trigger: string }): string {
  return `subscription ${of.id} (topic ${plain(of.topic, 100)}, trigger ${plain(of.trigger, 100)})`;
}

/** A time as people read it: `2026-11-24 05:30 UTC`. */
function timeText(at: string | null): string {
  return at === null ? 'an unknown time' : `${at.slice(0, 10)} ${at.slice(11, 16)} UTC`;
}

function ofKind<K extends Fact['kind']>(facts: readonly Fact[], kind: K): FactOf<K>[] {
  return facts.filter((one): one is FactOf<K> => one.kind === kind);
}

/**
 * Makes a text of people or of other systems safe for a line of a mail and for a header: no line breaks, no control
 * characters, no characters that change the direction of text, at most `max` characters.
 */
function plain(text: string, max: number): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return [...line].slice(0, max).join('');
}
