import { isScope, SCOPE_RULES } from '../../services/contract/scopes.ts';
import { PORTAL_PATH } from '../portal/session/return-path.ts';
import type { Fact, FactOf } from './facts.ts';

/** The values that the texts contain, besides the facts. */
interface TextContext {
  readonly shopName: string;
  /** Public address of the API. Mails link to its documentation and its portal. */
  readonly publicUrl: string;
  /** Whether members can sign in to the portal. Else mails have no links to its pages. */
  readonly hasPortal: boolean;
  /** The actor of a fact in words, such as `the API key k3v9x0aabbcc`. */
  readonly by: string;
  /** The person whom a fact is about, in words; empty when it is about nobody. */
  readonly who: string;
}

interface MailText {
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
    case 'owner_added':
      return newOwner(first, c);
    case 'api_key_made':
      return keyMade(first, c);
    case 'new_device':
      return signedIn(first, c);
    case 'app_installed':
      return installed(first, c);
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

function newOwner(first: FactOf<'owner_added'>, c: TextContext): Parts {
  return {
    subject: `[${c.shopName}] There is a new owner`,
    lines: [
      `${plain(c.who, 320)} is now an owner of the shop ${c.shopName}, and may do everything in it.`,
      '',
      `When: ${timeText(first.at)}`,
      `By: ${plain(c.by, 400)}`,
      '',
      'If you expected this, you need not do anything.',
      'If not: change the role in the portal, and check the members of the shop.',
    ],
  };
}

function keyMade(first: FactOf<'api_key_made'>, c: TextContext): Parts {
  const name = plain(first.description, 100) || first.key_id;
  const shop = c.shopName;
  const [title, start] = first.waiting
    ? ['An API key waits for you', `An API key of the shop ${shop} waits for an owner, because it`]
    : first.rotated
      ? ['API key rotated', `A new API key replaces another one of the shop ${shop}. It`]
      : ['New API key', `An API key was made for the shop ${shop}. It`];
  return {
    subject: `[${shop}] ${title}: ${name}`,
    lines: [
      first.waiting ? `${start} may do more than the person who made it:` : `${start} may:`,
      ...first.scopes.filter(isScope).map((scope) => `- ${SCOPE_RULES[scope].text}`),
      '',
      `When: ${timeText(first.at)}`,
      `By: ${plain(c.by, 400)}`,
      `Key id: ${first.key_id}`,
      '',
      ...(first.waiting
        ? [
            'It does not work until an owner approves it in the portal. If you did not expect it, reject it there.',
          ]
        : [
            'If you expected this, you need not do anything.',
            'If not: revoke the key in the portal, and check the members of the shop.',
          ]),
    ],
  };
}

function signedIn(first: FactOf<'new_device'>, c: TextContext): Parts {
  const device = plain(first.device, 100) || 'an unknown browser';
  return {
    subject: `[${c.shopName}] You signed in with ${device}`,
    lines: [
      `Your account signed in to the portal of ${c.shopName} with a browser that you had not used there before.`,
      '',
      `When: ${timeText(first.at)}`,
      `With: ${device}`,
      `From: ${plain(first.source, 100) || 'an unknown address'}`,
      '',
      'If it was you, you need not do anything.',
      'If not: change your password, and end the session in the portal. Ask an owner to end your access to the shop: assistants and apps may have been connected.',
    ],
  };
}

function installed(first: FactOf<'app_installed'>, c: TextContext): Parts {
  const name = plain(first.name, 100);
  const texts = (scopes: readonly string[]) =>
    scopes.filter(isScope).map((scope) => `- ${SCOPE_RULES[scope].text}`);
  const waiting = texts(first.waiting_scopes);
  return {
    subject: `[${c.shopName}] The app ${name} was connected`,
    lines: [
      `The app ${name} was connected to the shop ${c.shopName}. This lets it do:`,
      ...texts(first.scopes),
      ...(waiting.length > 0
        ? [
            '',
            'It also asks for this, which waits until an owner allows it in the portal:',
            ...waiting,
          ]
        : []),
      '',
      `When: ${timeText(first.at)}`,
      `By: ${plain(c.by, 400)}`,
      `Client id: ${plain(first.client_id, 200)}`,
      '',
      'If you expected this, you need not do anything.',
      'If not: remove the app in the portal, and check the members of the shop.',
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
  owner_added: OWNER,
  api_key_made: OWNER,
  new_device: 'You get this mail because you are a member of this shop.',
  app_installed: OWNER,
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

/** A page of the portal that a mail is about. */
interface MailPage {
  /** What a person finds on the page. */
  readonly title: string;
  /** From `/portal` on, with the filters of the page. */
  readonly path: string;
}

/** Where to look in the log for the deliveries that a mail is about. */
const DELIVERIES = {
  endpoint_failing: { title: 'Deliveries that wait', state: 'waiting' },
  endpoint_disabled: { title: 'Deliveries that are held', state: 'held' },
  endpoint_exhausted: { title: 'Deliveries that were given up', state: 'exhausted' },
} as const;

/**
 * Returns the pages to which a mail links. A mail about several subscriptions links to the list of all.
 *
 * @param facts at least one, all of one kind.
 */
function mailPages(facts: readonly [Fact, ...Fact[]]): readonly MailPage[] {
  const [first] = facts;
  switch (first.kind) {
    case 'endpoint_failing':
    case 'endpoint_disabled':
    case 'endpoint_exhausted': {
      const { title, state } = DELIVERIES[first.kind];
      const id = onlySubscription(facts);
      const filter = id === undefined ? '' : `webhook=${id}&`;
      return [
        webhookPage(id),
        { title, path: `${PORTAL_PATH}/deliveries?${filter}state=${state}` },
      ];
    }
    case 'secret_revealed':
      return [webhookPage(first.subscription.id), AUDIT_LOG];
    case 'assistant_connected':
      return [
        { title: 'Connected assistants', path: `${PORTAL_PATH}/assistants` },
        TEAM,
        AUDIT_LOG,
      ];
    case 'owner_added':
      return [TEAM, AUDIT_LOG];
    case 'api_key_made':
      return [{ title: 'API keys', path: `${PORTAL_PATH}/api-keys` }, TEAM, AUDIT_LOG];
    case 'new_device':
      return [{ title: 'Your sessions', path: `${PORTAL_PATH}/sessions` }];
    case 'app_installed':
      return [{ title: 'Partner apps', path: `${PORTAL_PATH}/partner-apps` }, TEAM, AUDIT_LOG];
    default:
      throw new Error(`there are no pages about ${first satisfies never}`);
  }
}

const TEAM: MailPage = { title: 'Team and roles', path: `${PORTAL_PATH}/team` };
const AUDIT_LOG: MailPage = { title: 'Audit log', path: `${PORTAL_PATH}/audit-log` };

function webhookPage(id: string | undefined): MailPage {
  return id === undefined
    ? { title: 'Webhooks', path: `${PORTAL_PATH}/webhooks` }
    : { title: `Webhook ${id}`, path: `${PORTAL_PATH}/webhooks/${id}` };
}

/** The id of the subscription; undefined when the facts are about several. */
function onlySubscription(facts: readonly Fact[]): string | undefined {
  const ids = new Set(facts.flatMap((one) => ('subscription' in one ? one.subscription.id : [])));
  const [id] = ids;
  return ids.size === 1 ? id : undefined;
}
