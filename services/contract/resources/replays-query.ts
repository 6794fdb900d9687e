import { parseId } from '../../platform/ids.ts';
import { type Page, pageOf, textOf } from './page-query.ts';

/** Selects replays and backfills, and a page of them. */
export interface ReplaysQuery extends Page {
  /** 0 for those of all webhooks. */
  readonly webhookId: bigint;
}

export type ReplaysQueryResult =
  | { readonly ok: true; readonly value: ReplaysQuery }
  | { readonly ok: false; readonly field: string; readonly rule: string };

/** Parses the query of a list of replays: each known parameter at most once, and not empty. */
export function readReplaysQuery(query: URLSearchParams): ReplaysQueryResult {
  const id = textOf(query, 'webhook_id');
  if (!id.ok) return id;
  const webhookId = id.value === undefined ? 0n : parseId(id.value);
  if (webhookId === undefined) {
    return { ok: false, field: 'webhook_id', rule: 'must be the id of a webhook' };
  }
  const page = pageOf(query);
  return page.ok ? { ok: true, value: { webhookId, ...page.value } } : page;
}
