import { PORTAL_PATH } from '../portal/return-path.ts';
import type { Fact } from './facts.ts';

/** A page of the portal that a mail is about. */
export interface MailPage {
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
export function mailPages(facts: readonly [Fact, ...Fact[]]): readonly MailPage[] {
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
        { title: 'Team and roles', path: `${PORTAL_PATH}/team` },
        AUDIT_LOG,
      ];
    default:
      throw new Error(`there are no pages about ${first satisfies never}`);
  }
}

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
