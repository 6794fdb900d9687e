import { parseId } from '../../platform/ids.ts';
import { InvalidParameter, type Page, parametersIn, type QueryResult, readQuery } from './query.ts';

/** Selects replays and backfills, and a page of them. */
export interface ReplaysQuery extends Page {
  /** Id of a webhook; 0 selects the jobs of all webhooks. */
  readonly webhookId: bigint;
}

/** The parameters of the query. */
export const REPLAYS_PARAMETERS = ['webhook_id', 'limit', 'cursor'] as const;

/** Parses the query of a list of replays. Each known parameter may occur once, and must not be empty. */
export function readReplaysQuery(query: URLSearchParams): QueryResult<ReplaysQuery> {
  return readQuery(() => {
    const parameters = parametersIn(query, REPLAYS_PARAMETERS);
    const id = parameters.text('webhook_id');
    const webhookId = id === undefined ? 0n : parseId(id);
    if (webhookId === undefined) {
      throw new InvalidParameter('webhook_id', 'must be the id of a webhook');
    }
    return { webhookId, ...parameters.page() };
  });
}
